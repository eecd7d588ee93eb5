// Pickles in torch.save files: every dangerous global, named and called in every way; every opcode
// with nothing on the stack; every length that lies.
#include <array>
#include <cctype>

#include "tests/format/pickle_text.h"
#include "tests/hostile/corpus.h"

namespace cairn::testing {
namespace {

using Cases = std::vector<HostileCase>;

void add_pickle(Cases& cases, const std::string& name, const std::string& data_pkl, Answer answer) {
  cases.push_back({name, {{"", torch_file_of(data_pkl)}}, answer});
}

struct Name {
  const char* module;
  const char* name;
};

// Globals by which known malicious pickles run programs, read files or reach the network. Also
// globals that PyTorch's own list allows, but whose results are not data.
constexpr Name kDangerous[] = {
    {"os", "system"},
    {"os", "popen"},
    {"os", "execv"},
    {"os", "execve"},
    {"os", "spawnl"},
    {"os", "remove"},
    {"os", "unlink"},
    {"os", "rename"},
    {"os", "chmod"},
    {"os", "kill"},
    {"os", "fork"},
    {"os", "putenv"},
    {"os", "open"},
    {"posix", "system"},
    {"posix", "popen"},
    {"posix", "execv"},
    {"nt", "system"},
    {"subprocess", "Popen"},
    {"subprocess", "call"},
    {"subprocess", "run"},
    {"subprocess", "check_output"},
    {"builtins", "eval"},
    {"builtins", "exec"},
    {"builtins", "compile"},
    {"builtins", "open"},
    {"builtins", "__import__"},
    {"builtins", "getattr"},
    {"builtins", "setattr"},
    {"builtins", "globals"},
    {"builtins", "type"},
    {"builtins", "object"},
    {"builtins", "map"},
    {"builtins", "apply"},
    {"builtins", "input"},
    {"builtins", "print"},
    {"builtins", "memoryview"},
    {"__builtin__", "eval"},
    {"__builtin__", "execfile"},
    {"__builtin__", "file"},
    {"__builtin__", "apply"},
    {"__builtin__", "getattr"},
    {"__main__", "Exploit"},
    {"runpy", "run_path"},
    {"runpy", "_run_code"},
    {"importlib", "import_module"},
    {"imp", "load_source"},
    {"code", "interact"},
    {"pdb", "run"},
    {"timeit", "timeit"},
    {"cProfile", "run"},
    {"pty", "spawn"},
    {"platform", "popen"},
    {"commands", "getoutput"},
    {"ctypes", "CDLL"},
    {"ctypes", "cast"},
    {"socket", "create_connection"},
    {"urllib.request", "urlopen"},
    {"urllib.request", "urlretrieve"},
    {"http.client", "HTTPSConnection"},
    {"requests.api", "get"},
    {"webbrowser", "open"},
    {"smtplib", "SMTP"},
    {"shutil", "rmtree"},
    {"shutil", "copyfile"},
    {"shutil", "move"},
    {"tempfile", "mkstemp"},
    {"pathlib", "Path"},
    {"io", "open"},
    {"io", "FileIO"},
    {"_io", "FileIO"},
    {"codecs", "open"},
    {"linecache", "getline"},
    {"glob", "glob"},
    {"pickle", "loads"},
    {"pickle", "Unpickler"},
    {"_pickle", "loads"},
    {"dill", "loads"},
    {"dill._dill", "_create_function"},
    {"cloudpickle.cloudpickle", "_make_function"},
    {"joblib", "load"},
    {"marshal", "loads"},
    {"types", "FunctionType"},
    {"types", "CodeType"},
    {"functools", "partial"},
    {"functools", "reduce"},
    {"operator", "attrgetter"},
    {"operator", "methodcaller"},
    {"itertools", "starmap"},
    {"copyreg", "_reconstructor"},
    {"copyreg", "__newobj__"},
    {"copy_reg", "_reconstructor"},
    {"threading", "Thread"},
    {"multiprocessing", "Process"},
    {"multiprocessing.util", "spawnv_passfds"},
    {"asyncio.unix_events", "_UnixSubprocessTransport._start"},
    {"signal", "signal"},
    {"sys", "exit"},
    {"sys", "modules"},
    {"sys", "settrace"},
    {"gc", "get_objects"},
    {"inspect", "currentframe"},
    {"bdb", "Bdb"},
    {"doctest", "debug_script"},
    {"distutils.file_util", "write_file"},
    {"setuptools", "setup"},
    {"pip", "main"},
    {"pip._internal", "main"},
    {"site", "main"},
    {"idlelib.pyshell", "ModifiedInterpreter.runcode"},
    {"logging.config", "fileConfig"},
    {"lib2to3.pgen2.grammar", "Grammar.loads"},
    {"numpy", "load"},
    {"numpy", "fromfile"},
    {"numpy", "save"},
    {"numpy.f2py.crackfortran", "param_eval"},
    {"numpy.testing._private.utils", "runstring"},
    {"pandas", "read_pickle"},
    {"torch", "load"},
    {"torch", "save"},
    {"torch", "FloatTensor"},
    {"torch", "from_file"},
    {"torch.cuda", "FloatTensor"},
    {"torch.hub", "load"},
    {"torch.jit", "load"},
    {"torch.ops", "load_library"},
    {"torch.utils.cpp_extension", "load"},
    {"torch.utils.cpp_extension", "load_inline"},
    {"torch.storage", "_load_from_bytes"},
    {"torch.serialization", "load"},
    {"torch._dynamo.guards", "GuardBuilder.get"},
    {"torch.utils._config_module", "load_config"},
    {"torch.utils.bottleneck.__main__", "run_cprofile"},
    {"torch.utils.collect_env", "run"},
    {"torch.nn.modules.linear", "Linear"},
    {"torch.fx.graph_module", "reduce_graph_module"},
    {"torch._inductor.codecache", "compile_file"},
    {"transformers", "AutoModel"},
    {"evil", "FloatStorage"},
    {"torch.evil", "_rebuild_tensor_v2"},
};

std::string identifier(std::string text) {
  for (char& c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return text;
}

std::string short_text(const std::string& text) {
  return "\x8c" + std::string(1, static_cast<char>(text.size())) + text;
}

// A global alone is read as a placeholder. The sandbox makes sure that nothing else happens.
void add_dangerous_globals(Cases& cases) {
  const std::string argument = unicode("touch /tmp/cairn_was_here") + "\x85";
  for (const Name& bad : kDangerous) {
    const std::string what = identifier(std::string(bad.module) + "_" + bad.name);
    const std::string named = global(bad.module, bad.name);
    const std::string stacked = short_text(bad.module) + short_text(bad.name) + "\x93";
    add_pickle(cases, what + "_reduced", pickle(named + argument + "R"), Answer::kRead);
    add_pickle(cases, what + "_made", pickle(named + argument + "\x81"), Answer::kRead);
    add_pickle(cases, what + "_stacked", "\x80\4"s + stacked + argument + "R.", Answer::kRead);
    add_pickle(cases, what + "_in_a_state",
               pickle(tensor(float_storage() + "K\0K\4\x85K\1\x85"s) + named + argument + "Rb"),
               Answer::kUnsupported);
    add_pickle(cases, what + "_as_storage_class",
               pickle(tensor(storage(named, "0", "K\4"s) + "K\0K\4\x85K\1\x85"s)),
               Answer::kUnsupported);
  }
}

// Each opcode with an empty stack, no memo and no operand.
void add_lonely_opcodes(Cases& cases) {
  const std::string alone = "N\x88\x89])}\x8f";  // make a value of nothing
  const std::string outside =                    // not read by cairn
      "o\x80\x82\x83\x84\x97\x98";               // 0x80: protocol 46
  for (int op = 0; op < 256; ++op) {
    const char c = static_cast<char>(op);
    if (std::isprint(op) != 0 && std::string("FILSPVgipc").find(c) != std::string::npos) continue;
    const Answer answer = alone.find(c) != std::string::npos     ? Answer::kRead
                          : outside.find(c) != std::string::npos ? Answer::kUnsupported
                                                                 : Answer::kCorrupt;
    add_pickle(cases, "opcode_" + std::to_string(op) + "_alone", "\x80\2"s + c + ".", answer);
  }
}

struct Lengths {
  const char* name;
  char op;
  int bytes;  // of the length
};

// Lengths that exceed the file by one byte, or by exabytes.
void add_lying_lengths(Cases& cases) {
  constexpr std::array kOps = {
      Lengths{"SHORT_BINSTRING", 'U', 1}, Lengths{"BINSTRING", 'T', 4},
      Lengths{"BINUNICODE", 'X', 4},      Lengths{"SHORT_BINUNICODE", '\x8c', 1},
      Lengths{"BINUNICODE8", '\x8d', 8},  Lengths{"SHORT_BINBYTES", 'C', 1},
      Lengths{"BINBYTES", 'B', 4},        Lengths{"BINBYTES8", '\x8e', 8},
      Lengths{"BYTEARRAY8", '\x96', 8},   Lengths{"LONG1", '\x8a', 1},
      Lengths{"LONG4", '\x8b', 4},        Lengths{"FRAME", '\x95', 8},
  };
  for (const Lengths& op : kOps) {
    for (const std::string& length :
         {"\5\0\0\0\0\0\0\0"s, "\xff\xff\xff\xff\xff\xff\xff\xff"s, "\xff\xff\xff\x7f\0\0\0\0"s,
          "\xff\xff\xff\xff\xff\xff\xff\x7f"s, "\xff\0\0\x80\0\0\0\x80"s}) {
      const std::string name = std::string(op.name) + "_of_" +
                               std::to_string(static_cast<unsigned char>(length[0])) + "_" +
                               std::to_string(static_cast<unsigned char>(length[3])) + "_" +
                               std::to_string(static_cast<unsigned char>(length[7]));
      if (op.bytes == 1 && length != "\5\0\0\0\0\0\0\0"s) continue;
      add_pickle(cases, name,
                 "\x80\4"s + op.op + length.substr(0, static_cast<std::size_t>(op.bytes)) + "ab",
                 Answer::kCorrupt);
    }
  }
}

void add_memo_bombs(Cases& cases) {
  for (const std::string& index : {"\xff\xff\xff\xff"s, "\xff\xff\xff\x7f"s, "\0\0\0\x10"s}) {
    add_pickle(cases, "LONG_BINPUT_" + std::to_string(static_cast<unsigned char>(index[3])),
               pickle("Nr" + index), Answer::kCorrupt);
    add_pickle(cases, "LONG_BINGET_" + std::to_string(static_cast<unsigned char>(index[3])),
               pickle("j" + index), Answer::kCorrupt);
  }
  add_pickle(cases, "a_million_memos", pickle("N" + repeated("\x94", 1'000'000)), Answer::kRead);
  add_pickle(cases, "a_million_pops", pickle("N" + repeated("N0", 500'000)), Answer::kRead);
  add_pickle(cases, "a_million_marks", pickle("N" + repeated("(", 1'000'000)), Answer::kCorrupt);
  add_pickle(cases, "a_million_items", pickle("](" + repeated("N", 1'000'000) + "e"),
             Answer::kRead);
  for (const std::size_t depth : {1001U, 5000U, 100'000U, 1'000'000U}) {
    const std::string tail = "_nested_" + std::to_string(depth);
    add_pickle(cases, "lists" + tail, pickle(repeated("]", depth) + repeated("a", depth - 1)),
               Answer::kCorrupt);
    add_pickle(cases, "tuples" + tail, pickle(")" + repeated("\x85", depth)), Answer::kCorrupt);
    add_pickle(cases, "dicts" + tail, pickle(repeated("}N", depth) + "N" + repeated("s", depth)),
               Answer::kCorrupt);
    add_pickle(cases, "marked_lists" + tail, pickle(repeated("(", depth) + repeated("l", depth)),
               Answer::kCorrupt);
  }
}

// Lying numbers, as opcodes, for a tensor.
void add_lying_tensors(Cases& cases) {
  struct Number {
    const char* name;
    std::string code;
  };
  const std::vector<Number> numbers = {
      {"minus_one", int32(-1)},
      {"two_to_31", int64(std::int64_t{1} << 31)},
      {"two_to_61", int64(std::int64_t{1} << 61)},
      {"largest", int64(INT64_MAX)},
      {"smallest", int64(INT64_MIN)},
      {"beyond_int64", "\x8a\x09\0\0\0\0\0\0\0\0\1"s},
      {"half", "G?\xe0\0\0\0\0\0\0"s},
      {"none", "N"},
      {"text", unicode("4")},
      {"list", "]"},
  };
  const std::string size4 = "K\4\x85"s;
  const std::string stride1 = "K\1\x85"s;
  for (const Number& n : numbers) {
    const std::string name = n.name;
    add_pickle(cases, "numel_" + name,
               pickle(tensor(float_storage(n.code) + "K\0"s + size4 + stride1)), Answer::kCorrupt);
    add_pickle(cases, "offset_" + name, pickle(tensor(float_storage() + n.code + size4 + stride1)),
               Answer::kCorrupt);
    add_pickle(cases, "size_" + name,
               pickle(tensor(float_storage() + "K\0"s + n.code + "\x85" + stride1)),
               Answer::kCorrupt);
    add_pickle(cases, "stride_" + name,
               pickle(tensor(float_storage() + "K\0"s + size4 + n.code + "\x85")),
               Answer::kCorrupt);
  }
  for (const char* key : {"../data.pkl", "1", "0/0", "/0", "", "00", "data/0", "\xc3\xa9"}) {
    add_pickle(cases, "storage_key_" + std::string(key),
               pickle(tensor(storage(global("torch", "FloatStorage"), key, "K\4"s) + "K\0"s +
                             size4 + stride1)),
               Answer::kCorrupt);
  }
}

}  // namespace

std::vector<HostileCase> hostile_pickles() {
  Cases cases;
  add_dangerous_globals(cases);
  add_lonely_opcodes(cases);
  add_lying_lengths(cases);
  add_memo_bombs(cases);
  add_lying_tensors(cases);
  return cases;
}

}  // namespace cairn::testing
