#!/usr/bin/env python3
"""Each rule of tidy.py catches what it is for, and lets pass what it should."""
import unittest

import tidy

PUBLIC = "namespace CAIRN_PUBLIC cairn {"
HEADER = "#pragma once\n"
BUILT = {"src/core/CMakeLists.txt": "target_sources(cairn_core PRIVATE\n  a.cpp\n)\n"}


def function(lines, signature="int f(int x)"):
    return signature + " {\n" + "  g();\n" * (lines - 2) + "}\n"


class TidyTest(unittest.TestCase):
    def passes(self, tree):
        self.assertEqual(tidy.problems(tree), [])

    def fails(self, tree, *expected):
        found = tidy.problems(tree)
        self.assertEqual(len(found), len(expected), found)
        for problem, part in zip(found, expected):
            self.assertIn(part, problem)

    def test_layers_point_downwards(self):
        self.passes({"src/checkpoint/a.h": HEADER + '#include "format/b.h"\n#include "base/c.h"\n'})
        self.fails({"src/core/a.h": HEADER + '#include "format/b.h"\n'},
                   "src/core/a.h:2: core/ may not include format/")
        self.fails({"src/format/a.h": HEADER + '#include "cairn/storage/b.h"\n'},
                   "format/ may not include storage/")
        self.fails({"include/cairn/checkpoint/a.h": HEADER + '#include "cairn/train/b.h"\n'},
                   "checkpoint/ may not include train/")
        self.fails({"include/cairn/a.h": HEADER + '#include "cairn/format/b.h"\n'},
                   "core/ may not include format/")
        self.fails({"src/callbacks/a.h": HEADER + '#include "loggers/b.h"\n'},
                   "callbacks/ may not include loggers/")
        self.fails({"src/train/a.h": HEADER + '#include "cairn/checkpoint.h"\n'}, "umbrella")
        self.fails({"src/new/a.h": HEADER}, "no row")
        self.fails({"src/io/a.h": HEADER + "#include <filesystem>\n"}, "<filesystem> crashes")

    def test_sentences_are_read_once(self):
        puzzle = "Of two files it takes one.\n\n"
        self.passes({"docs/a.md": puzzle * 2})
        self.fails({"docs/a.md": puzzle * 3}, *["opens with a fragment: Of two files"] * 3)

    def test_a_public_header_is_of_the_folder_that_defines_it(self):
        self.passes({"src/value/a.h": HEADER + '#include "cairn/value.h"\n'})
        self.passes({"src/io/a.h": HEADER + '#include "cairn/byte_source.h"\n'})
        for folder in ("core", "io", "net", "terminal"):
            self.fails({f"src/{folder}/a.h": HEADER + '#include "cairn/value.h"\n'},
                       f"{folder}/ may not include value/")
        self.fails({"include/cairn/error.h": HEADER + '#include "cairn/tensor.h"\n'},
                   "core/ may not include value/")

    def test_folders_in_a_folder_make_no_circle(self):
        def includes(here, *headers):
            return {f"src/{here}/a.h": HEADER + "".join(f'#include "{h}"\n' for h in headers)}
        down = includes("cli/view", "cli/shell/a.h", "cli/tool.h", "io/file.h")
        self.passes(down | includes("cli/shell", "cli/shell/b.h", "cli/other/a.h"))
        self.fails(down | includes("cli/shell", "cli/view/b.h"),
                   "src/cli/shell/a.h:2: cli/shell/ includes cli/view/, which includes it",
                   "src/cli/view/a.h:2: cli/view/ includes cli/shell/, which includes it")
        self.fails(down | includes("cli/shell", "cli/other/a.h") |
                   includes("cli/other", "cli/view/a.h"),
                   "cli/other/", "cli/shell/", "cli/view/")
        # What is known to close one is named, and no other header of that folder.
        known = includes("checkpoint/open", "checkpoint/plan/a.h")
        self.passes(known | includes("checkpoint/plan", "checkpoint/open/read_storages.h"))
        self.fails(known | includes("checkpoint/plan", "checkpoint/open/load.h"), "open/", "plan/")
        self.assertIn("tools/tidy.py:1: CLOSES_A_CIRCLE names checkpoint/open/read_storages.h, "
                      "which checkpoint/plan/ does not include",
                      tidy.problems(known | {"tools/tidy.py": ""}))

    def test_what_another_file_defines_is_declared_by_a_header(self):
        def tree(text, defined="namespace cairn {\nint f(int x) {\n  return x;\n}\n}\n"):
            return {"src/core/a.cpp": text, "src/storage/b.cpp": defined,
                    "src/core/CMakeLists.txt": "a.cpp", "src/storage/CMakeLists.txt": "b.cpp"}
        message = "src/core/a.cpp:2: declares f(), which src/storage/b.cpp defines"
        self.fails(tree("namespace cairn {\nint f(int x);\n}\n"), message)
        self.fails(tree("namespace cairn {\nextern int f(int x);\n}\n"),
                   "declares f by extern", message)
        self.fails(tree("int g() {\n  extern int f(int);\n  return f(1);\n}\n"),
                   "src/core/a.cpp:2: declares f by extern")
        self.fails(tree("extern const int kLimit;\n"),
                   "src/core/a.cpp:1: declares kLimit by extern")
        self.passes(tree("int f(int x);\nint g() { return f(1); }\nint f(int x) { return x; }\n"))
        self.passes(tree("namespace {\nint f(int x);\n}\nint x = f(1);\n"))
        self.passes(tree("extern char** environ;\n"))
        self.passes(tree('extern "C" void g(int) {}\nextern "C" {\nint h() { return 1; }\n}\n'))
        self.passes(tree("class C {\n  int f(int x);\n};\nextern template class V<int>;\n"))

    def test_variables_of_a_header_are_defined_in_its_folder(self):
        header = {"src/core/a.h": HEADER + "extern const Codec kOne;\n"}
        for folder, passes in (("core", True), ("io", False)):
            tree = header | {f"src/{folder}/b.cpp": "const Codec kOne = {.x = 1};\n",
                             f"src/{folder}/CMakeLists.txt": "b.cpp"}
            if passes:
                self.passes(tree)
            else:
                self.fails(tree, "src/core/a.h:2: kOne is extern, and not defined in core/")

    def test_what_is_built_includes_nothing_of_the_tests_and_nothing_by_a_detour(self):
        self.passes({"tests/a.h": HEADER + '#include "testing/b.h"\n#include "../c.h"\n'})
        self.passes({"src/io/a.h": HEADER + '#include "io/testing.h"\n#include "core/b..h"\n'})
        for name in ("testing/b.h", "../core/b.h", "core/../net/b.h", "cairn/../../testing/b.h"):
            self.fails({"src/io/a.h": HEADER + f'#include "{name}"\n'},
                       f"src/io/a.h:2: io/ may not include {name}")

    def test_what_a_header_declares_is_not_defined_above_it(self):
        def tree(declared, folder, defined, header="src/train/a.h"):
            return {header: HEADER + PUBLIC + "\n" + declared + "\n}\n",
                    f"src/{folder}/b.cpp": "namespace cairn {\n" + defined + "\n}\n",
                    f"src/{folder}/CMakeLists.txt": "b.cpp"}
        message = "src/train/a.h:3: f() is defined in optim/, which train/ may not include"
        declared, defined = "std::vector<int> f(int x = {});", "std::vector<int> f(int x) {}"
        self.fails(tree(declared, "optim", defined), message)
        self.passes(tree(declared, "train", defined))
        self.passes(tree(declared, "core", defined))
        self.passes(tree(declared, "core", defined, "include/cairn/a.h"))
        self.fails(tree(declared, "format", defined, "include/cairn/a.h"),
                   "f() is defined in format/, which core/ may not include")
        # A function of the same name in the header's own folder will be the one that is meant.
        self.passes(tree(declared + "\ninline int f() { return 1; }", "optim", defined))
        # Members, and what no other file can call.
        in_class = "class [[nodiscard]] C final : public B<int> {\n  C();\n  void f() const;\n};"
        self.fails(tree(in_class, "optim", "C::C() : b_{1} {}\nvoid C::f() const {}"),
                   "a.h:4: C::C()", "a.h:5: C::f()")
        self.passes(tree(in_class, "optim", "void f() {}\nvoid D::f() {}"))
        self.passes(tree(declared, "optim", "namespace {\n" + defined + "\n}"))
        self.passes(tree(declared, "optim", "static " + defined))
        self.passes(tree(declared, "optim", "void g() { f(1); }"))

    def test_exceptions_from_that_are_named_and_needed(self):
        trainer = {"include/cairn/train/a.h": HEADER + "struct Trainer {\n  void fit();\n};\n",
                   "src/train/trainer/b.cpp": "void Trainer::fit() {}\n",
                   "src/train/CMakeLists.txt": "trainer/b.cpp"}
        self.passes(trainer)
        found = tidy.problems(trainer | {"tools/tidy.py": ""})
        self.assertFalse([problem for problem in found if "Trainer" in problem])
        found = tidy.problems({"tools/tidy.py": ""})
        self.assertIn("tools/tidy.py:1: DEFINED_ABOVE names Trainer, which is not defined above",
                      found)

    def test_torch_stays_above(self):
        self.passes({"src/train/a.h": HEADER + "#include <torch/torch.h>\n"})
        self.fails({"src/checkpoint/a.h": HEADER + "#include <ATen/core/Tensor.h>\n"},
                   "may not include torch")
        self.fails({"include/cairn/a.h": HEADER + "#include <c10/core/Device.h>\n"},
                   "may not include torch")

    def test_public_headers_are_cheap_and_short(self):
        self.passes({"include/cairn/train/a.h": HEADER + "#include <ATen/core/Tensor.h>\n"})
        self.fails({"include/cairn/train/a.h": HEADER + "#include <torch/torch.h>\n"}, "20 s")
        self.fails({"include/cairn/a.h": HEADER + "\n" * 350}, "351 lines")
        self.passes({"include/cairn/a.h": HEADER + "#include <optional>\n#include <map>\n"})
        for name in ("filesystem", "regex", "iostream", "ranges", "thread", "future"):
            self.fails({"include/cairn/cairn.h": HEADER + f"#include <{name}>\n"}, f"<{name}>")

    def test_public_headers_include_what_is_installed(self):
        for name in ('"cairn/time.h"', '"cairn/train/event.h"', "<string>", "<string_view>",
                     "<ATen/core/Tensor.h>", "<c10/core/Device.h>", "<torch/optim/optimizer.h>"):
            self.passes({"include/cairn/train/a.h": HEADER + f"#include {name}\n"})
        private = ("io/file.h", "core/checked.h", "train/engine/engine.h", "b.h", "src/io/file.h",
                   "fmt/format.h", "curl/curl.h", "openssl/evp.h", "CLI/CLI.hpp", "zstd.h",
                   "pugixml.hpp", "poll.h")
        for header in ("include/cairn/train/a.h", "include/cairn/cairn.h"):
            for name in private:
                for include in (f'"{name}"', f"<{name}>"):
                    self.fails({header: HEADER + f"#include {include}\n"},
                               f"{header}:2: public headers include cairn/, libtorch and the "
                               f"standard library, not {name}")
        self.passes({"src/train/a.h": HEADER + '#include "io/b.h"\n#include <curl/curl.h>\n'})

    def test_public_headers_are_exported(self):
        text = "namespace cairn {\n}\n"
        self.fails({"include/cairn/a.h": HEADER + text}, "a.h:2: the shared library would not")
        self.passes({"include/cairn/a.h": HEADER + text.replace("cairn", "CAIRN_PUBLIC cairn"),
                     "src/core/a.h": HEADER + text})

    def test_a_private_header_does_not_hide_a_public_class(self):
        public = {"include/cairn/a.h": HEADER + PUBLIC + "class State {};\nnamespace dist {\n"
                                       "struct Group {};\n}\n}\n"}
        for declared in ("class State;", "namespace dist {\nstruct Group;\n}"):
            self.fails(public | {"src/io/a.h": HEADER + f"namespace cairn {{\n{declared}\n}}\n"},
                       "src/io/a.h:%d: hides cairn::" % (4 if "dist" in declared else 3))
            self.passes(public | {"src/io/a.h": HEADER + PUBLIC + f"\n{declared}\n}}\n"})
        for declared in ("class Group;", "struct A { class State; };", "using enum State;"):
            self.passes(public | {"src/io/a.h": HEADER + f"namespace cairn {{\n{declared}\n}}\n"})

    def test_public_headers_name_what_is_installed(self):
        def public(text):
            return HEADER + "namespace CAIRN_PUBLIC cairn {\n" + text + "\n}\n"

        ours = public("class State;")
        self.fails({"include/cairn/a.h": ours}, "a.h:3: cairn::State is not installed")
        self.passes({"include/cairn/a.h": ours,
                     "include/cairn/b.h": public("class State final : public A {\n};")})
        self.passes({"src/core/a.h": ours})
        # A definition of that name in another namespace is of another type.
        self.fails({"include/cairn/a.h": ours,
                    "include/cairn/b.h": HEADER + PUBLIC + "namespace dist { class State {}; }}\n"},
                   "cairn::State")
        for text in ("template <class T> class X;", "template <class T>\nstruct X;", "union X;",
                     "enum class X : int;", "enum X : std::uint8_t;", "struct [[nodiscard]] X;",
                     "class C {\n  friend class X;\n};", "int f() { return 1; } class X;",
                     "namespace {}\nclass X;  // {", "class C { struct X; };\nclass X;",
                     "class X;\nauto f() -> class X* { return nullptr; }"):
            self.fails({"include/cairn/a.h": public(text)}, "cairn::X is not installed")
            self.passes({"include/cairn/a.h": HEADER + "namespace torch {\n" + text + "\n}\n"})
            for defined in ("class X {};", "enum class X : int { kOne };",
                            "template <class T> struct X<T*> final : Y { int x; };"):
                self.passes({"include/cairn/a.h": public(text + "\n" + defined)})
        after = HEADER + "namespace torch {}\n" + PUBLIC + "class X; }\n"
        self.fails({"include/cairn/a.h": after}, "a.h:3: cairn::X")
        self.fails({"include/cairn/a.h": public("namespace dist {\nclass X;\n}\nclass X {};")},
                   "a.h:4: cairn::dist::X")
        self.passes({"include/cairn/a.h": public("namespace dist {\nclass X;\n}"),
                     "include/cairn/b.h": HEADER + PUBLIC + "namespace dist { struct X {}; }}"})
        # A class's own types, and what is no declaration of a type.
        own = "class C {\n  struct Impl;\n  class D {\n    struct Place;\n"
        own += "    friend struct Impl;\n    friend class C;\n    friend class dist::E;\n  };\n};"
        self.passes({"include/cairn/a.h": public(own)})
        self.passes({"include/cairn/a.h": public("// class X;\nvoid f() {\n  struct X;\n}\n"
                                                 "template <class X> void g(X x);\nusing x::X;")})
        self.passes({"include/cairn/a.h": HEADER + "namespace torch::nn {\nclass Module;\n}\n"})

    def test_public_headers_say_what_things_do(self):
        def tree(comment, each=90, files=4):
            text = HEADER + (comment + "\n") * each + "\n" * 40 + "int x;\n" * 209
            return {f"include/cairn/{name}.h": text for name in "abcd"[:files]}

        self.passes(tree("  // The use of x."))
        self.passes(tree("int y;", files=3))  # too few lines to judge
        self.fails(tree("// The use of x.", 89), "29.8 % of")
        for nothing in ("int y;  // y", "// --- x ------", "// clang-format off", "// NOLINT(x)"):
            self.fails(tree(nothing), "0.0 % of the lines of include/ are comments")
        bare = {"include/cairn/e.h": HEADER + "int x;\n" * 9}
        self.passes(tree("// x", 98) | bare)
        bare = {"include/cairn/e.h": HEADER + "int x;\n" * 99}
        self.assertIn("include/cairn/e.h:1: 2", tidy.problems(tree("// x") | bare)[0])

    def test_every_source_is_built(self):
        source = {"src/core/a.cpp": "int x;\n"}
        self.passes(source | BUILT)
        self.passes({"tests/core/a_test.cpp": "",
                     "tests/core/CMakeLists.txt": "cairn_tests(core_tests FILES a_test)"})
        self.passes({"src/b.cpp": "", "CMakeLists.txt": "${PROJECT_SOURCE_DIR}/src/b.cpp"})
        self.fails(source, "in no CMakeLists.txt")
        self.fails(source | {"src/core/CMakeLists.txt": "# a.cpp"}, "in no CMakeLists.txt")
        self.fails(source | {"src/format/CMakeLists.txt": "a.cpp"}, "in no CMakeLists.txt")
        self.fails(source | {"src/core/CMakeLists.txt": "ba.cpp"}, "in no CMakeLists.txt")

    def test_files_and_lines_are_short(self):
        self.passes({"tests/a.h": HEADER + "int x;\n" * 599})
        self.fails({"tests/a.h": HEADER + "int x;\n" * 600}, "601 lines")
        self.passes({"src/core/a.h": HEADER + "//" + "x" * 98})
        self.fails({"src/core/a.h": HEADER + "//" + "x" * 99}, "a.h:2: 101 columns")
        self.passes({"docs/a.md": "x" * 200})

    def test_functions_are_short(self):
        self.passes({"src/core/a.h": HEADER + function(60)})
        self.fails({"src/core/a.h": HEADER + "\n" + function(61)}, "a.h:3: function of 61 lines")
        inside = "namespace n {\nclass C : public B<int> {\n public:\n" + function(61) + "};\n}\n"
        self.fails({"src/core/a.h": HEADER + inside}, "a.h:5: function of 61")
        self.passes({"tests/a.h": HEADER + function(100)})
        table = "constexpr int kTable[] = {\n" + "  1,\n" * 100 + "};\n"
        self.passes({"src/core/a.h": HEADER + table})
        for signature in ("template <class T, class U>\nvoid f(T t)", "TEST(A, B)",
                          "C::C(int a)\n    : a_{a}, b_(1)",
                          "auto C::operator()(int x) const noexcept(true) -> int"):
            self.fails({"src/core/a.h": HEADER + function(70, signature)}, "function of")

    def test_braces_in_text_and_comments_do_not_count(self):
        noise = 'const char* f() {\n  // {\n  /* {{ */\n  return "{" R"x({)x" "\\"{"; }\n'
        noise += "char g() { return '{'; }\nint h() { return 1'000; }\n#define X {\n"
        self.passes({"src/core/a.h": HEADER + noise + function(60)})

    def test_functions_have_few_parameters(self):
        five = "void f(int a, std::map<int, int> b, void (*c)(int, int), D d = {1, 2}, int e)"
        self.passes({"src/core/a.h": HEADER + function(3, five)})
        template = "template <class A, class B, class C, class D, class E, class F> void f(void)"
        self.passes({"src/core/a.h": HEADER + function(3, template)})
        self.fails({"src/core/a.h": HEADER + function(3, five[:-1] + ", int g)")}, "6 parameters")

    def test_names_say_something(self):
        self.passes({"src/core/commonplace.h": HEADER})
        for name in ("string_util.h", "helpers.h", "misc.h", "save_manager.h", "common/a.h"):
            self.fails({"tests/" + name: HEADER}, "says nothing")

    def test_only_io_calls_the_file_system(self):
        self.passes({"src/io/a.h": HEADER + "#include <unistd.h>\n"})
        self.passes({"tests/core/a.h": HEADER + "#include <fstream>\n"})
        for name in ("unistd.h", "fcntl.h", "sys/stat.h", "filesystem", "fstream"):
            self.fails({"src/format/a.h": HEADER + f"#include <{name}>\n"}, "outside src/io")

    def test_headers_begin_with_pragma_once(self):
        self.passes({"src/core/a.h": "// What it is.\n\n#pragma once\n"})
        self.fails({"src/core/a.h": "#include <string>\n#pragma once\n"}, "#pragma once")

    def test_own_header_comes_first(self):
        tree = BUILT | {"src/core/a.h": HEADER, "src/core/a.cpp": '#include "core/a.h"\n'}
        self.passes(tree)
        self.fails(tree | {"src/core/a.cpp": '#include <string>\n#include "core/a.h"\n'}, "first")

    def test_every_event_method_of_callback_has_a_row(self):
        def tree(method, row="kInit, \"init\", &Callback::init"):
            return {"include/cairn/train/callback.h": HEADER + method + "\n",
                    "src/train/engine/event.cpp": "{{" + row + "}};\n",
                    "src/train/CMakeLists.txt": "engine/event.cpp"}
        init = "  virtual void init(State& /*state*/, Logger& /*logger*/) {}"
        self.passes(tree(init))
        message = "callback.h:2: init() has no row in kEvents of src/train/engine/event.cpp"
        self.fails(tree(init, row=""), message)
        self.fails(tree(init, row="// &Callback::init"), message)
        self.fails(tree("virtual void init(State& state,\nLogger& logger);", row=""), message)
        self.passes(tree("virtual void close(State& /*state*/, Logger& /*logger*/) {}"))
        self.passes(tree("virtual void run_event(Event event, State& state, Logger& logger);"))

    def test_a_class_is_not_large(self):
        def tree(fields, functions, name="A"):
            body = "".join(f"  std::map<int, int> f{n}_ = {{}};\n" for n in range(fields))
            body += "".join(f"  int g{n}(int x);\n" for n in range(functions))
            return {"src/core/a.h": HEADER + f"class {name} {{\n public:\n  {name}(int x);\n"
                                             f"  ~{name}();\n  {name}(A&&) = default;\n"
                                             f"  using B = int;\n{body}}};\n"}
        self.passes(tree(15, 25))
        self.fails(tree(16, 0), "src/core/a.h:2: A has 16 fields and 0 functions")
        self.fails(tree(0, 26), "A has 0 fields and 26 functions")
        self.passes(tree(16, 0, "State"))
        callbacks = "".join(f"  std::function<int(int)> f{n};\n" for n in range(15))
        self.passes({"src/core/a.h": HEADER + "struct A {\n" + callbacks + "};\n"})

    def test_a_class_is_in_few_files(self):
        def tree(count):
            names = [f"a{n}.cpp" for n in range(count)]
            build = "target_sources(cairn_core PRIVATE\n" + "\n".join(names) + ")\n"
            return {"src/core/CMakeLists.txt": build} | {
                f"src/core/{name}": "int A::f" + name[1:-4] + "(int x) {\n}\n" for name in names}
        self.passes(tree(5))
        self.fails(tree(6), "A is defined in 6 files (limit 5)")

    def test_what_a_store_is_nobody_asks(self):
        self.fails({"src/core/a.h": HEADER + "auto* a = dynamic_cast<const OwnStore*>(&b);\n"},
                   "src/core/a.h:2: dynamic_cast to OwnStore")
        self.passes({"src/core/a.h": HEADER + "auto* a = dynamic_cast<const Error*>(&b);\n"})

    def test_a_folder_is_not_large(self):
        tree = {f"src/new/a{n}.md": "" for n in range(25)}
        self.passes(tree)
        self.fails(tree | {"src/new/b.md": ""}, "src/new:1: 26 files in one folder")

    def test_names_in_nameless_namespaces_are_unique(self):
        def tree(first, second, folders=("core", "io"), space="cairn"):
            files = {}
            for folder, body, around in zip(folders, (first, second), ("cairn", space)):
                files[f"src/{folder}/CMakeLists.txt"] = "target_sources(a PRIVATE\n  a.cpp\n)\n"
                files[f"src/{folder}/a.cpp"] = (f"namespace {around} {{\nnamespace {{\n{body}\n}}\n"
                                                "}\n")
            return files
        again = "src/io/a.cpp:3: A is also in the nameless namespace of src/core/a.cpp"
        for body in ("struct A {\n  int b;\n};", "enum class A { kB };", "using A = int;",
                     "constexpr int A = 3;", "constexpr std::size_t A = std::size_t{1} << 20;",
                     "constexpr milliseconds A{20};", "const std::string A = \"a\";",
                     "constexpr std::array<int, 1> A = {1};", "constexpr char A[] = \"a\";"):
            self.fails(tree(body, body), again)
        self.fails(tree("using A = int;", "class A final : public B {\n};"), again)
        self.passes(tree("using A = int;", "using A = int;", space="cairn::zip"))
        self.passes(tree("using A = int;", "using A = int;", folders=("core", "train")))
        for body in ("int A(int x) {\n  return x;\n}", "int A(int x);", "using std::A;",
                     "constexpr int A(int x) {\n  return x;\n}", "int f() {\n  struct A {};\n}"):
            self.passes(tree(body, body))

    def test_links_lead_somewhere(self):
        page = {"src/b.cmake": "",
                "docs/a.md": "# Its `one` link, a_b!\n\n## Two\n\n## Two\n"
                             "<a name=\"three\"></a>\n```\n# Four\n```\n### A [fifth](a.md)\n"}
        for link in ("docs/a.md", "src/b.cmake", "docs", "src/", "docs/../src", "https://a.b/c#d",
                     "docs/a.md#its-one-link-a_b", "docs/a.md#two", "docs/a.md#two-1",
                     "docs/a.md#three", "docs/a.md#a-fifth", "LICENSE", "mailto:a@b"):
            text = f"A [link\nof two lines]({link} \"title\").\n\n[b]: {link}\n"
            self.passes(page | {"c.md": text})
        for link in ("a.md", "docs/b.md", "../a.md"):
            self.fails(page | {"c.md": f"\n[link]({link})\n"}, "c.md:2: links to ")
        for link in ("docs/a.md#four", "docs/a.md#two-2", "docs/a.md#Two", "#two"):
            self.fails(page | {"c.md": f"\n[link]({link})\n"}, "which is no heading there")
        self.passes({"c.md": "# One\n[b](#one), `[](int)`\n```\n[](no.md)\n```\n"
                             "\n    [](A a) {};\n"})

    def test_code_names_pages_that_are_there(self):
        page = {"docs/a.md": "# One\n"}
        self.passes(page | {"src/core/a.h": HEADER + "// docs/a.md#one, see docs/a.md.\n"})
        self.fails(page | {"src/core/a.h": HEADER + 'f("see docs/b.md");\n'},
                   "src/core/a.h:2: links to docs/b.md, which is not there")
        self.fails(page | {"src/core/a.h": HEADER + "// docs/a.md#two\n"}, "is no heading there")

    def test_pages_show_files_as_they_are(self):
        page = {"docs/a.md": "<!-- same as a.cmake -->\n```cmake\nx()\n```\n"}
        self.passes(page | {"a.cmake": "x()\n"})
        self.fails(page | {"a.cmake": "y()\n"}, "docs/a.md:3: copy a.cmake into this block")
        self.fails(page, "docs/a.md:3: copy a.cmake")

    def test_words(self):
        self.fails({"README.md": "see ../" "shared/spec\n"}, "README.md:1: names a place outside")
        self.fails({"tests/a.h": HEADER + "// TO" "DO: later\n"}, "is unfinished")
        self.fails({"tests/a.h": HEADER + "using  namespace std;\n"}, "using namespace")
        self.passes({"tests/a.h": HEADER + "// no using namespace here\n"})
        self.passes({"tests/a.h": HEADER + "using namespace std::string_view_literals;\n"})


if __name__ == "__main__":
    unittest.main()
