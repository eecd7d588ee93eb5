#!/usr/bin/env python3
"""Makes a program from the examples in the comments of the public headers.

    make_examples.py core|train HEADERS OUT

HEADERS is include/cairn/, OUT the .cpp file to write. An example is a run of comment lines that are
indented by three spaces or more. EXAMPLES has a row for each with the code that surrounds it at a
reader's. NO_CODE lists examples that are not code. An example in neither list is an error, and so
is a row without an example. The program runs the examples that need no server, in an empty folder.
"""
import pathlib
import re
import sys
import textwrap

VALUE = 'const Value value = Dict{{"step", 1}};'
NET = "torch::nn::Sequential net(torch::nn::Linear(64, 10));"


class Example:
    """`before` and `after` surround the example, and `top` comes before its function. `replace`
    fills in what the example leaves to the reader ("..."). `is_type`: the example is outside of
    functions. `runs`: the example is run, otherwise it is only compiled."""

    def __init__(self, part="core", before="", after="", top="", replace=(), is_type=False,
                 runs=True):
        self.part, self.before, self.after, self.top = part, before, after, top
        self.replace, self.is_type, self.runs = replace, is_type, runs


def callback(replace=()):
    """The constructor call of a callback."""
    return Example("train", before="const auto made =", after=";", runs=False, replace=replace)


def far(before=VALUE, replace=()):
    return Example(before=before, replace=replace, runs=False)


def option(after, before=NET):
    """A field of TrainerOptions, or a value for one."""
    return Example("train", before=before, after=after)


EXAMPLES = {
    "checkpoint/checkpoint.h": [Example(
        before=VALUE, after='check(newest.has_value() && again == value, "it is found");')],
    "checkpoint/convert.h": [Example(
        before='save(Dict{{"state", Dict{{"model", Dict{}}}}}, "ep3.pt");', runs=False)],
    "checkpoint/copy.h": [far()],
    "checkpoint/ignore_keys.h": [Example(
        before="[[maybe_unused]] const struct { IgnoreKeys load_ignore_keys; } options{",
        after="};")],
    "callbacks/profiler.h": [
        Example("train", before="[[maybe_unused]] const TrainerOptions options{", after="};")],
    "checkpoint/keep_best.h": [Example(
        "train", before="[[maybe_unused]] const CheckpointSaverOptions options{", after="};")],
    "checkpoint/sharded.h": [far()],
    "dtensor.h": [Example(runs=False)],  # it needs a rank's file
    "foreign.h": [Example(before='save(Dict{{"step", 1}}, "ep1.pt");')],
    "storage/azure.h": [far()],
    "storage/backend_kwargs.h": [Example(
        after='check(kwargs.at("provider_kwargs").nested()->size() == 2, "it is nested");')],
    "storage/dbfs.h": [far()],
    "storage/gcs.h": [far()],
    "storage/object_store.h": [Example(
        before=VALUE, after='check(newest.has_value(), "it is found");')],
    "storage/object_store_checks.h": [Example(replace=[("MyStore>(...)", "MyStore>()")],
                                                runs=False)],
    "storage/oci.h": [far()],
    "storage/s3.h": [far()],
    "storage/sftp.h": [far()],
    "storage/stores.h": [Example(before=VALUE)],
    "storage/wandb.h": [far(VALUE + ' const std::string key = "key";')],
    "time.h": [Example(before="struct { Timestamp timestamp; } state;",
                       after='check(half.to_string() == "5ep", "half of it");',
                       replace=[("max) ...", "max) {}")])],
    "callbacks/early_stopper.h": [Example("train", before="const auto stopper =", after=";")],
    "callbacks/export_for_inference.h": [callback()],
    "callbacks/generate.h": [callback([("[net]", "[]"), ("{ ... }", """{
        return std::vector<std::string>(prompts); }""")])],
    "callbacks/load_checkpoint.h": [callback()],
    "callbacks/mlperf.h": [callback()],
    "callbacks/threshold_stopper.h": [callback()],
    "checkpoints.h": [Example("train", before="""
        torch::nn::Linear G(4, 2);
        torch::optim::Adam opt_g(G->parameters(), 1e-3);
        at::Tensor pool = torch::zeros({2});
        std::int64_t step = 0;
        const std::int64_t n = 2;
        const auto train_on_a_batch = [] {};""",
                              replace=[("return ck.finish();", "ck.finish();")], runs=False)],
    "dist/dist.h": [
        Example("train", before="const double loss = 1;", replace=[("== 0) ...", "== 0) {}")]),
        Example("train", before="const Value weights = Dict{};", runs=False)],
    "dist/activation_checkpoint.h": [Example(
        "train", is_type=True,
        replace=[("at::Tensor forward(", "[[maybe_unused]] at::Tensor forward("),
                 ("blocks)", "std::vector{torch::nn::Linear(8, 8)})")])],
    "dist/sharding.h": [
        Example("train", is_type=True,
                top="struct BlockImpl : torch::nn::Module {}; TORCH_MODULE(Block);",
                replace=[("#include <cairn/dist/sharding.h>", ""), ("  ...\n", ""),
                         ("TrainerOptions: ", "const cairn::TrainerOptions sharded_options{"),
                         ("FSDPConfig{}},", "FSDPConfig{}}};")]),
        Example("train", runs=False, before="""
            torch::nn::Sequential net(torch::nn::Linear(4, 2));
            const at::Tensor input = torch::zeros({1, 4});
            const auto loss_of = [](const at::Tensor& output) { return output.sum(); };""")],
    "loggers/remote_uploader_downloader.h": [Example("train", before="TrainerOptions options;",
                                                     runs=False)],
    "loggers/mlflow_logger.h": [Example("train", before="TrainerOptions options;", runs=False)],
    "loggers/slack_logger.h": [Example("train", before="TrainerOptions options;", runs=False)],
    "loggers/summary_writer.h": [Example("train")],
    "loggers/tensorboard_logger.h": [Example("train", before="TrainerOptions options;",
                                             runs=False)],
    "loggers/wandb_logger.h": [Example("train", before="TrainerOptions options;", runs=False)],
    "models/huggingface.h": [Example("train", before=NET, runs=False)],
    "optim/own_optimizer.h": [
        Example("train", is_type=True,
                replace=[(".optimizers = cairn::RecipeOf<Lion>({.lr = 1e-4}),",
                          "const cairn::TrainerOptions lion_options{.optimizers = "
                          "cairn::RecipeOf<Lion>({.lr = 1e-4})};")]),
        Example("train", is_type=True,
                replace=[("{ ... u.options.lr(), u.state.exp_avg() ... }",
                          "{ u.parameter.sub_(u.options.lr() * u.state.exp_avg()); }")])],
    "train/batch.h": [Example("train", before="""
        const at::Tensor images = torch::zeros({2, 4}), labels = torch::zeros({2});
        const at::Tensor ids = images;
        const Batch batch = Batch::named({{"input_ids", ids}, {"labels", labels}});""",
                              runs=False)],
    "train/callback.h": [Example("train", is_type=True)],
    "train/data.h": [Example("train", before="""
        const auto loader = testing_loader();
        const auto count_tokens = [](const Batch&) { return std::int64_t{1}; };
        const DataSpec spec =""", after=";", runs=False)],
    "train/evaluator.h": [Example("train", before="""
        const auto val = testing_loader(), hard = testing_loader();
        const TrainerOptions options{""", after="};", runs=False)],
    "train/handle.h": [
        Example("train", before="""
            struct MyMonitor final : Callback {};
            const auto my_monitor = std::make_shared<MyMonitor>();
            const TrainerOptions options{""", after="};", runs=False),
        Example("train", before="struct MyMonitor final : Callback {}; " + NET, runs=False,
                replace=[("...,", ".model = classifier(net, {.num_classes = 10}),")])],
    "train/model.h": [
        Example("train", is_type=True, top="using Net = torch::nn::Sequential;"),
        Example("train", replace=[(".model =", "const TrainerOptions options{.model ="),
                                  ("10}),", "10})};")])],
    "train/optimizer_layout.h": [],
    "train/parameters.h": [Example("train", before=NET + " const auto optimizer =", after=";")],
    "train/scaler.h": [Example("train", before="""
        torch::nn::Linear net(2, 1);
        torch::optim::SGD optimizer(parameters(*net), 0.1);
        GradScaler scaler({.enabled = false});
        const at::Tensor loss = net(torch::ones({1, 2})).sum();""")],
    "train/state_dict.h": [Example("train", before=NET)],
    "train/trainer.h": [Example("train", before=NET + """
        const auto train = std::make_shared<DataLoader>(
            tensor_dataset({torch::rand({8, 64}), torch::zeros({8}, at::kLong)}),
            DataLoaderOptions{.batch_size = 4});""",
                                replace=[("classifier(net)",
                                          "classifier(net, {.num_classes = 10})")])],
}

NO_CODE = {  # by the beginning of the first line
    "c.h": ["const int64_t", "of torch"],  # in C: tests/c/c_program.c
    "callbacks/speed_monitor.h": ["throughput/"],
    "loggers/console_logger.h": ["[epoch="],
    "loggers/file_logger.h": ['{"batch"', '{"time"'],
    "sparse_tensor.h": ["COO"],
    "train/event.h": ["fit_start"],
    # A part of a class; examples/ has a whole one.
    "train/optimizer_layout.h": ["class Lion"],
}

HEAD = {
    "core": """
#include <iostream>
#include <map>

#include "cairn/checkpoint.h"
#include "cairn/checkpoint/copy.h"
#include "cairn/checkpoint/sharded.h"
#include "cairn/dtensor.h"
#include "cairn/foreign.h"
#include "cairn/storage/azure.h"
#include "cairn/storage/backend_kwargs.h"
#include "cairn/storage/dbfs.h"
#include "cairn/storage/gcs.h"
#include "cairn/storage/object_store_checks.h"
#include "cairn/storage/oci.h"
#include "cairn/storage/s3.h"
#include "cairn/storage/sftp.h"
#include "cairn/storage/stores.h"
#include "cairn/storage/wandb.h"
#include "cairn/time.h"

#include "testing/plain_store.h"
""",
    "train": """
#include <torch/torch.h>

#include "cairn/cairn.h"
#include "cairn/callbacks/export_for_inference.h"
#include "cairn/callbacks/generate.h"
#include "cairn/callbacks/load_checkpoint.h"
#include "cairn/callbacks/mlperf.h"
#include "cairn/callbacks/profiler.h"
#include "cairn/callbacks/threshold_stopper.h"
#include "cairn/checkpoints.h"
#include "cairn/dist/activation_checkpoint.h"
#include "cairn/dist/dist.h"
#include "cairn/dist/sharding.h"
#include "cairn/loggers/mlflow_logger.h"
#include "cairn/loggers/slack_logger.h"
#include "cairn/loggers/tensorboard_logger.h"
#include "cairn/loggers/wandb_logger.h"
#include "cairn/models/huggingface.h"
#include "cairn/optim/own_optimizer.h"
#include "cairn/train/scaler.h"

#include "testing/tiny_model.h"
""",
}

BODY = """
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "testing/temp_folder.h"

using namespace cairn;

namespace {

[[maybe_unused]] void check(bool is_so, const char* what) {
  if (is_so) return;
  std::fprintf(stderr, "not so: %s\\n", what);
  std::exit(1);
}
"""

OF_PART = {
    "core": """
struct MyStore : testing::PlainStore {
  explicit MyStore(const std::string& /*root*/ = "") : PlainStore(memory_store(), true) {}
};
""",
    "train": """
auto testing_loader() { return std::make_shared<DataLoader>(testing::tiny_loader(4)); }
""",
}


def examples_in(text):
    """The examples of a header, in order: runs of indented lines of comment."""
    found, block = [], []
    for line in text.split("\n") + [""]:
        if re.match(r"//   +\S", line):
            block.append(line[2:])
        elif line == "//" and block:
            block.append("")
        else:
            if block:
                found.append(textwrap.dedent("\n".join(block)).strip() + "\n")
            block = []
    return found


def is_code(header, example):
    return not any(example.startswith(begin) for begin in NO_CODE.get(header, []))


def main(part, headers, out):
    code, calls, problems = [], [], []
    root = pathlib.Path(headers)
    for path in sorted(root.rglob("*.h")):
        header = path.relative_to(root).as_posix()
        found = [e for e in examples_in(path.read_text()) if is_code(header, e)]
        rows = EXAMPLES.get(header, [])
        if len(found) != len(rows):
            problems.append(f"{header}: {len(found)} examples, and {len(rows)} rows in EXAMPLES of "
                            f"{__file__}:\n" + "\n".join(found))
            continue
        for number, (example, row) in enumerate(zip(found, rows)):
            if row.part != part:
                continue
            name = re.sub(r"\W", "_", header) + str(number)
            for old, new in row.replace:
                if old not in example:
                    problems.append(f'{header}: its example has no "{old}"')
                example = example.replace(old, new)
            code.append(f"namespace of_{name} {{\n{textwrap.dedent(row.top)}")
            if row.is_type:
                code.append(f"{example}}}\n")
                continue
            code.append(f"[[maybe_unused]] void run() {{\n{textwrap.dedent(row.before)}\n{example}"
                        f"{row.after}\n}}\n}}\n")
            if row.runs:
                calls.append(f'  std::fprintf(stderr, "{header}\\n");\n  of_{name}::run();\n')
    for header in EXAMPLES.keys() - {p.relative_to(root).as_posix() for p in root.rglob("*.h")}:
        problems.append(f"{header}: there is no such header")
    if problems:
        sys.exit("\n".join(problems))
    body = BODY + OF_PART[part]
    pathlib.Path(out).write_text(
        HEAD[part] + body + "\n".join(code) + "\n}  // namespace\n\nint main() {\n"
        "  const cairn::testing::TempFolder folder;\n"
        "  std::filesystem::current_path(folder.path());\n" + "".join(calls) + "}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
