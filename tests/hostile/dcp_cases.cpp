// torch.distributed.checkpoint folders whose metadata lies.
#include <limits>

#include "tests/format/pickle_text.h"
#include "tests/format/safetensors_text.h"
#include "tests/hostile/corpus.h"

namespace cairn::testing {
namespace {

using Cases = std::vector<HostileCase>;

constexpr const char* kModule = "torch.distributed.checkpoint.metadata";
constexpr const char* kDataName = "__0_0.distcp";
constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

// --- The objects of .metadata -------------------------------------------------------------------

std::string fields(const std::string& module, const std::string& type, const std::string& items) {
  return global(module, type) + ")\x81}(" + items + "ub";
}

std::string size(const std::vector<std::int64_t>& dims) {
  std::string out = global("torch", "Size") + "(";
  for (const std::int64_t dim : dims) {
    out += int64(dim);
  }
  return out + "t\x85R";
}

std::string chunk(const std::vector<std::int64_t>& offsets,
                  const std::vector<std::int64_t>& sizes) {
  return fields(kModule, "ChunkStorageMetadata",
                unicode("offsets") + size(offsets) + unicode("sizes") + size(sizes));
}

std::string properties(const std::string& dtype) {
  return global(kModule, "TensorProperties") + ")\x81(" + dtype +
         global("torch.serialization", "_get_layout") + unicode("torch.strided") + "\x85R\x89" +
         global(kModule, "_MEM_FORMAT_ENCODING") + "K\0\x85R\x89tb"s;
}

struct Tensor {
  std::string dtype = global("torch", "float32");
  std::vector<std::int64_t> shape = {4};
  std::string chunks = chunk({0}, {4});
};

std::string tensor_metadata(const Tensor& tensor) {
  return fields(kModule, "TensorStorageMetadata",
                unicode("properties") + properties(tensor.dtype) + unicode("size") +
                    size(tensor.shape) + unicode("chunks") + "](" + tensor.chunks + "e");
}

std::string index(const std::string& fqn, const std::string& offset) {
  return fields(kModule, "MetadataIndex",
                unicode("fqn") + unicode(fqn) + unicode("index") + "N" +
                    (offset.empty() ? "" : unicode("offset") + offset));
}

struct Info {
  std::string file = unicode(kDataName);
  std::string offset = "K\0"s;
  std::string length = "";  // empty: the size of the data file
  std::string more = "";
};

// The file that stores a float32 tensor of four elements.
std::string data_file() {
  return torch_file_of(pickle(tensor(float_storage() + "K\0K\x04\x85K\x01\x85"s)));
}

std::string info(const Info& info) {
  const std::string length =
      info.length.empty() ? int64(static_cast<std::int64_t>(data_file().size())) : info.length;
  return fields("torch.distributed.checkpoint.filesystem", "_StorageInfo",
                unicode("relative_path") + info.file + unicode("offset") + info.offset +
                    unicode("length") + length + info.more);
}

struct Metadata {
  std::string items = unicode("w") + tensor_metadata({});
  std::string paths = unicode("w") + unicode("w") + "\x85";
  std::string storage = index("w", size({0})) + info({});
  std::string more = "";
};

std::string metadata(const Metadata& metadata) {
  return pickle(fields(kModule, "Metadata",
                       unicode("state_dict_metadata") + "}(" + metadata.items + "u" +
                           unicode("planner_data") + "}(" + metadata.paths + "u" +
                           unicode("storage_data") + "}(" + metadata.storage + "u" +
                           metadata.more));
}

// --- Cases --------------------------------------------------------------------------------------

void add_dcp(Cases& cases, const std::string& name, const std::string& pickle,
             Answer answer = Answer::kCorrupt) {
  cases.push_back({"dcp " + name, {{".metadata", pickle}, {kDataName, data_file()}}, answer});
}

void add_locations(Cases& cases) {
  const auto stored = [&](const std::string& name, const Info& where,
                          Answer answer = Answer::kCorrupt) {
    add_dcp(cases, name, metadata({.storage = index("w", size({0})) + info(where)}), answer);
  };
  for (const std::string& file :
       {"../x"s, "/etc/passwd"s, ".."s, "."s, ""s, "a/b"s, "a\\b"s, "a\0b"s,
        "../../../../../etc/passwd"s, "./__0_0.distcp"s, "sub/../__0_0.distcp"s}) {
    stored("file named " + file, {.file = unicode(file)});
  }
  stored("file that is missing", {.file = unicode("__1_0.distcp")});
  stored("file that is its own metadata", {.file = unicode(".metadata"), .length = "K\x20"},
         Answer::kUnsupported);
  stored("file name that is a number", {.file = "K\x01"});
  stored("offset past the end", {.offset = int64(1 << 20)});
  stored("offset of one too many", {.offset = "K\x01"});
  stored("negative offset", {.offset = int64(-1)});
  stored("offset that overflows", {.offset = int64(kHuge), .length = int64(kHuge)});
  stored("length past the end", {.length = int64(kHuge)});
  stored("negative length", {.length = int64(-1)});
  stored("length of nothing", {.length = "K\0"s});
  stored("length of the elements alone", {.length = "K\x10"});
  stored("offset that is a text", {.offset = unicode("0")});
  stored("transform", {.more = unicode("transform_descriptors") + "]" + unicode("rot13") + "a"},
         Answer::kUnsupported);
  add_dcp(cases, "ten thousand times one chunk of ten thousand transforms",
          metadata(
              {.items = unicode("w") + tensor_metadata({.chunks = chunk({0}, {4}) + "q\x01" +
                                                                  repeated("h\x01", 10'000)}),
               .storage = index("w", size({0})) +
                          info({.more = unicode("transform_descriptors") + "](" + unicode("rot13") +
                                        "q\x02" + repeated("h\x02", 10'000) + "e"})}),
          Answer::kUnsupported);
  stored("transforms that are no list", {.more = unicode("transform_descriptors") + "K\x01"});
  add_dcp(cases, "nothing stored", metadata({.storage = ""}));
  add_dcp(cases, "chunk stored elsewhere", metadata({.storage = index("w", size({1})) + info({})}));
  add_dcp(
      cases, "chunk stored twice",
      metadata({.storage = index("w", size({0})) + info({}) + index("w", size({0})) + info({})}));
  add_dcp(
      cases, "two tensors in the same bytes",
      metadata({.items = unicode("w") + tensor_metadata({}) + unicode("v") + tensor_metadata({}),
                .storage = index("w", size({0})) + info({}) + index("v", size({0})) + info({})}));
}

void add_layouts(Cases& cases) {
  const auto shaped = [&](const std::string& name, const Tensor& tensor,
                          Answer answer = Answer::kCorrupt) {
    add_dcp(cases, name, metadata({.items = unicode("w") + tensor_metadata(tensor)}), answer);
  };
  shaped("as it should be", {}, Answer::kRead);
  shaped("the same chunk twice", {.chunks = chunk({0}, {4}) + chunk({0}, {4})}, Answer::kRead);
  shaped("hole at the end", {.shape = {5}});
  shaped("no chunks", {.chunks = ""});
  shaped("chunk longer than the tensor", {.shape = {3}});
  shaped("overlapping chunks", {.chunks = chunk({0}, {4}) + chunk({0}, {2})});
  shaped("chunk outside", {.chunks = chunk({4}, {4})});
  shaped("chunk at a negative place", {.chunks = chunk({-1}, {4})});
  shaped("chunk of negative size", {.chunks = chunk({0}, {-4})});
  shaped("chunk that overflows", {.chunks = chunk({kHuge}, {kHuge})});
  shaped("chunk of other rank", {.chunks = chunk({0, 0}, {2, 2})});
  shaped("chunk without dimensions", {.chunks = chunk({}, {})});
  shaped("tensor of negative size", {.shape = {-4}});
  shaped("size that overflows", {.shape = {kHuge, kHuge}, .chunks = chunk({0, 0}, {kHuge, kHuge})});
  shaped("size just below the overflow", {.shape = {kHuge / 4}, .chunks = chunk({0}, {kHuge / 4})});
  shaped("a thousand dimensions",
         {.shape = std::vector<std::int64_t>(1000, 1),
          .chunks = chunk(std::vector<std::int64_t>(1000, 0), std::vector<std::int64_t>(1000, 1))});
  shaped("other dtype than stored", {.dtype = global("torch", "int32")});
  shaped("wider dtype than stored", {.dtype = global("torch", "float64")});
  shaped("other shape than stored", {.shape = {2, 2}, .chunks = chunk({0, 0}, {2, 2})});
  shaped("dtype that is a text", {.dtype = unicode("float32")});
  shaped("dtype that is a device", {.dtype = global("torch", "device") + unicode("cpu") + "\x85R"});
  shaped("chunks that are numbers", {.chunks = "K\x01K\x02"});
  shaped("a hundred thousand empty chunks",
         {.chunks = chunk({0}, {0}) + "q\x01" + repeated("h\x01", 100'000) + chunk({0}, {4})});
  // Each repetition takes two bytes, and makes the reader parse the dimensions again.
  const std::vector<std::int64_t> zeros(64, 0);
  const std::vector<std::int64_t> ones(64, 1);
  add_dcp(
      cases, "a hundred thousand times one chunk of 64 dimensions",
      metadata({.items = unicode("w") + tensor_metadata({.shape = ones,
                                                         .chunks = chunk(zeros, ones) + "q\x01" +
                                                                   repeated("h\x01", 100'000)}),
                .storage = index("w", size(zeros)) + info({})}),
      Answer::kUnsupported);
  std::string others;  // unknown fields of a chunk, before the known ones
  for (std::int32_t i = 0; i < 20'000; ++i) {
    others += int32(i) + "N";
  }
  shaped("twenty thousand times one chunk of as many fields",
         {.chunks = fields(kModule, "ChunkStorageMetadata",
                           others + unicode("offsets") + size({0}) + unicode("sizes") + size({4})) +
                    "q\x01" + repeated("h\x01", 20'000)});
  shaped("chunks that contain themselves", {.chunks = "]q\x01h\x01"s + "a"});
}

void add_paths(Cases& cases) {
  const auto placed = [&](const std::string& name, const std::string& path,
                          Answer answer = Answer::kCorrupt) {
    add_dcp(cases, name, metadata({.paths = unicode("w") + path}), answer);
  };
  placed("path of an item that is not there", unicode("w") + "\x85" + unicode("v") + "N",
         Answer::kRead);
  placed("empty path", ")");
  placed("path that is a number", "K\x01");
  placed("path that contains itself", "]q\x01h\x01"s + "a");
  placed("path of a float", "G" + std::string(8, '\0') + "\x85");
  placed("path of a thousand and one levels", "(" + repeated(unicode("a"), 1001) + "t");
  placed("path to a negative index", unicode("a") + int64(-1) + "\x86");
  placed("path to a huge index", unicode("a") + int64(kHuge) + "\x86");
  placed("path to index one billion", unicode("a") + int64(1'000'000'000) + "\x86");
  placed("path into a list at the root", "K\0\x85"s);
  const auto two = [&](const std::string& name, const std::string& first,
                       const std::string& second) {
    const std::string objects = global(kModule, "BytesStorageMetadata") + ")\x81";
    cases.push_back(
        {"dcp " + name,
         {{".metadata",
           metadata({.items = unicode("v") + objects + unicode("w") + tensor_metadata({}),
                     .paths = unicode("v") + first + unicode("w") + second,
                     .storage = index("w", size({0})) + info({}) + index("v", "") +
                                info({.file = unicode("__1_0.distcp"),
                                      .length = int64(static_cast<std::int64_t>(
                                          torch_file_of(pickle("K\x01")).size()))})})},
          {kDataName, data_file()},
          {"__1_0.distcp", torch_file_of(pickle("K\x01"))}},
         Answer::kCorrupt});
  };
  two("two items at one place", unicode("a") + "\x85", unicode("a") + "\x85");
  two("an item below another", unicode("a") + "\x85", unicode("a") + unicode("b") + "\x86");
  two("a list that is a dict, too", unicode("a") + "K\0\x86"s,
      unicode("a") + unicode("b") + "\x86");
}

void add_pickles(Cases& cases) {
  add_dcp(cases, "empty metadata", "");
  add_dcp(cases, "metadata that is a dict", pickle("}"));
  add_dcp(cases, "metadata that is a tensor",
          pickle(tensor(float_storage() + "K\0K\x04\x85K\x01\x85"s)));
  add_dcp(cases, "metadata that is a torch.save file", data_file(), Answer::kUnsupported);
  add_dcp(cases, "metadata without fields", pickle(global(kModule, "Metadata") + ")\x81"));
  add_dcp(cases, "metadata of zero bytes", std::string(100, '\0'));
  add_dcp(
      cases, "metadata that is getattr",
      pickle(global("builtins", "getattr") + global(kModule, "Metadata") + unicode("x") + "\x86R"));
  for (const auto& [module, name] : {std::pair{"os", "system"},
                                     {"posix", "system"},
                                     {"builtins", "eval"},
                                     {"builtins", "__import__"},
                                     {"subprocess", "Popen"},
                                     {"torch", "load"},
                                     {"pathlib", "Path"},
                                     {"torch.distributed.checkpoint", "load"},
                                     {"torch.distributed.checkpoint.metadata", "os"}}) {
    const std::string call = global(module, name) + unicode("touch pwned") + "\x85R";
    add_dcp(cases, std::string("metadata that calls ") + module + "." + name,
            metadata({.more = unicode("mcore_data") + call}), Answer::kRead);
    add_dcp(cases, std::string("metadata that is made by ") + module + "." + name, pickle(call),
            Answer::kUnsupported);
    add_dcp(cases, std::string("metadata that gets ") + module + "." + name,
            metadata({.more = unicode("mcore_data") + global("builtins", "getattr") +
                              global(module, name) + unicode("x") + "\x86R"}),
            Answer::kRead);
  }
  add_dcp(cases, "more fields than are known",
          metadata({.more = unicode("mcore_data") + "}(" + unicode("w") + "}u" +
                            unicode("version") + unicode("1.0.0") + unicode("storage_meta") +
                            fields(kModule, "StorageMeta",
                                   unicode("checkpoint_id") + global("pathlib", "PosixPath") +
                                       unicode("/") + unicode("etc") + "\x86R")}),
          Answer::kRead);
  // The classes of .metadata are known only in .metadata. In another file, such an object has a
  // foreign class.
  cases.push_back({"dcp class in a torch.save file",
                   {{"", torch_file_of(pickle(global(kModule, "Metadata") + ")\x81"))}},
                   Answer::kRead});
}

void add_folders(Cases& cases) {
  const std::string whole = metadata({});
  cases.push_back({"dcp only a temporary metadata",
                   {{".metadata.tmp", whole}, {kDataName, data_file()}},
                   Answer::kCorrupt});
  cases.push_back({"dcp only data", {{kDataName, data_file()}}, Answer::kCorrupt});
  cases.push_back({"dcp data cut",
                   {{".metadata", whole}, {kDataName, data_file().substr(0, 300)}},
                   Answer::kCorrupt});
  cases.push_back({"dcp empty data", {{".metadata", whole}, {kDataName, ""}}, Answer::kCorrupt});
  cases.push_back({"dcp one rank of itself",
                   {{"__0.metadata", whole}, {kDataName, data_file()}},
                   Answer::kRead});
  cases.push_back({"dcp first rank missing",
                   {{"__1.metadata", whole}, {kDataName, data_file()}},
                   Answer::kCorrupt});
  const std::string other = metadata(
      {.items = unicode("w") + tensor_metadata({.shape = {8}, .chunks = chunk({0}, {4})})});
  cases.push_back({"dcp ranks that disagree",
                   {{"__0.metadata", whole}, {"__1.metadata", other}, {kDataName, data_file()}},
                   Answer::kCorrupt});
  std::string flipped = data_file();
  flipped[flipped.find(std::string(16, '\1'))] = '\2';
  cases.push_back(
      {"dcp flipped data", {{".metadata", whole}, {kDataName, flipped}}, Answer::kCorrupt});
}

// Tensors inside a safetensors file. The stored length, 16 bytes, is the size of the elements, and
// so identifies this form.
void add_safetensors(Cases& cases) {
  const std::string entry = safetensors_entry("w", "F32", "[4]", "[0,16]");
  const auto stored = [&](const std::string& name, const std::string& data,
                          const std::string& storage, Answer answer = Answer::kCorrupt) {
    cases.push_back({"dcp safetensors " + name,
                     {{".metadata", metadata({.storage = storage})}, {kDataName, data}},
                     answer});
  };
  const std::string elements(16, '\1');
  const std::string file = safetensors_file("{" + entry + "}", elements);
  const std::string whole = index("w", size({0})) + info({.length = "K\x10"});
  stored("as it should be", file, whole, Answer::kRead);
  stored("of another name",
         safetensors_file("{" + safetensors_entry("v", "F32", "[4]", "[0,16]") + "}", elements),
         whole);
  stored("of another dtype",
         safetensors_file("{" + safetensors_entry("w", "I32", "[4]", "[0,16]") + "}", elements),
         whole);
  stored("of another shape",
         safetensors_file("{" + safetensors_entry("w", "F32", "[2,2]", "[0,16]") + "}", elements),
         whole);
  stored("with a dtype that is none",
         safetensors_file("{" + safetensors_entry("w", "F99", "[4]", "[0,16]") + "}", elements),
         whole, Answer::kUnsupported);
  stored("cut", file.substr(0, file.size() - 1), whole);
  stored("of a header of terabytes", "\0\0\0\0\0\1\0\0{"s + std::string(64, ' '), whole);
  stored("that begins in its own middle", file,
         index("w", size({0})) + info({.offset = "K\1", .length = "K\x10"}));
  cases.push_back(
      {"dcp safetensors twice in one data file",
       {{".metadata",
         metadata({.items = unicode("w") + tensor_metadata({}) + unicode("v") + tensor_metadata({}),
                   .storage = whole + index("v", size({0})) +
                              info({.offset = int64(static_cast<std::int64_t>(file.size())),
                                    .length = "K\x10"})})},
        {kDataName,
         file + safetensors_file("{" + safetensors_entry("v", "F32", "[4]", "[0,16]") + "}",
                                 elements)}},
       Answer::kCorrupt});
}

}  // namespace

std::vector<HostileCase> hostile_dcp() {
  Cases cases;
  add_locations(cases);
  add_layouts(cases);
  add_paths(cases);
  add_pickles(cases);
  add_folders(cases);
  add_safetensors(cases);
  return cases;
}

}  // namespace cairn::testing
