// Loading into live tensors: the file is read once, checked on the way, and applied whole or not at
// all.

#include <gmock/gmock.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "cairn/checkpoint/convert.h"
#include "cairn/error.h"
#include "cairn/format/torch_file.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"

#include "checkpoint/open/checkpoint.h"
#include "checkpoint/open/source.h"
#include "storage/local/local_store.h"
#include "testing/ballast.h"
#include "testing/faulty_file_system.h"
#include "testing/loading_run.h"
#include "testing/recording_source.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::Ballast;
using testing::current_checkpoint;
using testing::FaultyFileSystem;
using testing::FileCall;
using ::testing::HasSubstr;
using testing::loading_run;
using testing::RecordingSource;
using testing::TempFolder;

struct Loading : ::testing::Test {
  Loading() {
    Trainer trainer(loading_run());
    trainer.fit();
    path = trainer.save_checkpoint(folder / "saved.pt");
  }

  TempFolder folder;
  std::string path;
};

// --- Once ----------------------------------------------------------------------------------------

struct Wide : Model {
  Wide() {
    for (int i = 0; i < 12; ++i) {
      std::string name = std::to_string(i);
      name.insert(name.begin(), 'p');  // GCC 12 warns about "p" + text at -O3.
      net->register_parameter(name, torch::rand({17 + i, 3001}));
    }
  }
  torch::nn::Module& module() override { return *net; }
  Outputs forward(const Batch& /*batch*/) override { return {}; }
  Losses loss(const Outputs& /*outputs*/, const Batch& /*batch*/) override { return {}; }
  std::shared_ptr<torch::nn::Module> net = std::make_shared<torch::nn::Module>();
};

// A state with only a model.
struct OnlyModel {
  explicit OnlyModel(std::shared_ptr<Model> model) { state.model = std::move(model); }
  State state;
  Logger logger{state};
};

// An open file that records reads from now on.
struct Recorded {
  explicit Recorded(const std::string& path)
      : file(path),
        source(std::make_shared<const RecordingSource>(posix_file_system().open(path))),
        opened(Checkpoint::Impl::make(path, open_file_source(source, path))) {}

  void expect_each_tensor_read_once() const {
    const TorchFile records(posix_file_system().open(file));
    int tensors = 0;
    for (const FileRecord& record : records.records()) {
      if (!record.name.starts_with("data/")) continue;
      ++tensors;
      EXPECT_EQ(source->times(record.offset, record.offset + record.size), std::pair(1, 1))
          << record.name;
    }
    EXPECT_EQ(tensors, 12);
  }

  std::string file;
  std::shared_ptr<const RecordingSource> source;
  Checkpoint opened;
};

TEST_F(Loading, EveryByteOfATensorIsReadOnce) {
  OnlyModel saved(std::make_shared<Wide>());
  const Recorded wide(save_checkpoint(saved.state, folder / "wide", {.weights_only = true}));
  OnlyModel loaded(std::make_shared<Wide>());
  load_checkpoint(wide.opened, loaded.state, loaded.logger, {.load_weights_only = true});
  EXPECT_EQ(state_dict(loaded.state.model->module()), state_dict(saved.state.model->module()));
  wide.expect_each_tensor_read_once();
}

TEST_F(Loading, AStateDictOfAnOpenFileIsReadOnceAndVerified) {
  const Value saved = state_dict(*Wide().net);
  save(saved, folder / "wide.pt");
  const Recorded wide(folder / "wide.pt");
  const Wide loaded;
  load_state_dict(*loaded.net, wide.opened);
  EXPECT_EQ(state_dict(*loaded.net), saved);
  wide.expect_each_tensor_read_once();

  std::string bad = testing::read_file(wide.file);
  bad[bad.size() / 2] ^= 1;
  testing::write_file(folder / "bad.pt", bad);
  const Wide other;
  const at::Tensor before = other.net->parameters().front().detach().clone();
  EXPECT_THROW(load_state_dict(*other.net, open_checkpoint(folder / "bad.pt")), CorruptError);
  EXPECT_TRUE(at::equal(other.net->parameters().front(), before));
}

// --- All or nothing ------------------------------------------------------------------------------

TEST_F(Loading, ABadByteInAnyTensorChangesNothing) {
  const std::string good = testing::read_file(path);
  const TorchFile file(source_of({as_bytes(good), nullptr}, path));
  Trainer trainer(loading_run());
  const Value before = current_checkpoint(trainer);
  int tensors = 0;
  for (const FileRecord& record : file.records()) {
    if (!record.name.starts_with("data/") || record.size == 0) continue;
    ++tensors;
    std::string bad = good;
    bad[record.offset + record.size - 1] ^= 1;
    testing::write_file(folder / "bad.pt", bad);
    try {
      load_checkpoint(folder / "bad.pt", trainer.state(), trainer.logger());
      ADD_FAILURE() << record.name << ": no error";
    } catch (const CorruptError& e) {
      EXPECT_THAT(e.what(), AllOf(HasSubstr("bad.pt"), HasSubstr(record.name),
                                  HasSubstr("nothing was changed")));
      EXPECT_EQ(e.file(), (folder / "bad.pt"));
    }
    ASSERT_EQ(current_checkpoint(trainer), before) << record.name;
  }
  EXPECT_GT(tensors, 10);
  load_checkpoint(path, trainer.state(), trainer.logger());
  EXPECT_NE(current_checkpoint(trainer), before);
}

// Changes the last byte of the last tensor in `file`, in the order in which load(path) reads it.
void spoil_last_tensor(const std::string& path, const std::string& file) {
  const Value value = load(path);
  const Storage* last = nullptr;
  for (const auto& [name, tensor] : tensors_of(value)) {
    const Storage* storage = tensor->storage.get();
    if (storage == nullptr || storage->size() < 64) continue;
    if (last == nullptr || storage->source_offset() > last->source_offset()) last = storage;
  }
  ASSERT_NE(last, nullptr);
  std::string bytes = testing::read_file(file);
  const std::string content(as_text(last->bytes().view));
  const std::size_t at = bytes.rfind(content);
  ASSERT_NE(at, std::string::npos);
  bytes[at + content.size() - 1] ^= 1;
  testing::write_file(file, bytes);
}

TEST_F(Loading, ABadByteInTheLastTensorOfAFolderChangesNothing) {
  const std::string dcp = folder / "dcp";
  for (const bool has_manifest : {true, false}) {
    convert(path, dcp + "/", {.overwrite = true});
    if (!has_manifest) std::filesystem::remove(dcp + "/.cairn_manifest.json");
    Trainer trainer(loading_run());
    const Value before = current_checkpoint(trainer);
    load_checkpoint(dcp, trainer.state(), trainer.logger());
    EXPECT_NE(current_checkpoint(trainer), before);
    const Value loaded = current_checkpoint(trainer);
    spoil_last_tensor(dcp, dcp + "/__0_0.distcp");
    try {
      load_checkpoint(dcp, trainer.state(), trainer.logger());
      ADD_FAILURE() << "no error";
    } catch (const CorruptError& e) {
      EXPECT_THAT(e.what(), AllOf(HasSubstr("__0_0.distcp"), HasSubstr("nothing was changed")));
    }
    EXPECT_EQ(current_checkpoint(trainer), loaded);
  }
}

TEST_F(Loading, AutoresumeGoesOnToTheOlderOneWhenTheLastTensorIsBad) {
  for (const std::string extension : {".pt", ".tar"}) {
    TrainerOptions options = loading_run();
    options.save_folder = folder / ("ckpt" + extension);
    options.save_filename = "ba{batch}" + extension;
    options.save_latest_filename = "latest" + extension;
    options.save_interval = "1ba";
    options.autoresume = true;
    Trainer(options).fit();
    const std::string newest = *options.save_folder + "/ba3" + extension;
    spoil_last_tensor(newest, newest);
    Trainer resumed(options);
    EXPECT_EQ(resumed.state().timestamp.batch, 2) << extension;
    EXPECT_EQ(current_checkpoint(resumed).at("state").at("model"),
              load(*options.save_folder + "/ba2" + extension).at("state").at("model"));
  }
}

TEST_F(Loading, AReadThatFailsChangesNothing) {
  const auto with_ballast = [] {
    TrainerOptions made = loading_run();
    made.callbacks.push_back(std::make_shared<Ballast>());
    return made;
  };
  {
    Trainer trained(with_ballast());
    trained.fit();
    path = trained.save_checkpoint(folder / "large.pt");
  }
  Trainer trainer(with_ballast());
  const Value before = current_checkpoint(trainer);
  std::uint64_t failed = 0;
  for (std::uint64_t n = 1;; ++n) {
    FaultyFileSystem files(posix_file_system());
    files.fail(FileCall::kRead, n, EIO);
    try {
      load_checkpoint(open_checkpoint(path, local_store(files)), trainer.state(), trainer.logger());
      break;
    } catch (const StorageError&) {
      ++failed;
      ASSERT_EQ(current_checkpoint(trainer), before) << "read " << n;
    }
  }
  EXPECT_GE(failed, 2U);
  EXPECT_NE(current_checkpoint(trainer), before);
}

// A load of a file that is being overwritten applies the saved values or nothing.
TEST_F(Loading, AFileThatIsOverwrittenWhileItIsReadIsLoadedAsItWasOrNotAtAll) {
  const std::string good = testing::read_file(path);
  Trainer reference(loading_run());
  load_checkpoint(path, reference.state(), reference.logger());
  const Value loaded = current_checkpoint(reference);
  int refused = 0;
  for (std::uint64_t n = 1, reads = 1; n <= reads; ++n) {
    Trainer trainer(loading_run());
    const Value before = current_checkpoint(trainer);
    FaultyFileSystem files(posix_file_system());
    std::uint64_t seen = 0;
    files.before_each([&](FileCall kind, std::uint64_t /*number*/) {
      if (kind == FileCall::kRead && ++seen == n) {
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file << std::string(good.size(), '\0') << std::flush;
      }
    });
    bool is_refused = false;
    try {
      load_checkpoint(open_checkpoint(path, local_store(files)), trainer.state(), trainer.logger());
    } catch (const Error&) {
      is_refused = true;
      ++refused;
    }
    EXPECT_EQ(current_checkpoint(trainer), is_refused ? before : loaded) << "read " << n;
    reads = std::max(reads, files.calls(FileCall::kRead));
    testing::write_file(path, good);
  }
  EXPECT_GE(refused, 1);
}

// --- All kinds of live tensors -------------------------------------------------------------------

at::Tensor numbers(at::IntArrayRef shape, at::ScalarType type = at::kFloat) {
  return torch::arange(c10::multiply_integers(shape), at::kDouble).view(shape).add(1).to(type);
}

// A module with one buffer.
std::shared_ptr<torch::nn::Module> module_of(const at::Tensor& buffer) {
  auto module = std::make_shared<torch::nn::Module>();
  module->register_buffer("x", buffer);
  return module;
}

// Loads `value` from a file into a module whose buffer is `live`.
void load_into(const at::Tensor& live, const at::Tensor& value) {
  const TempFolder folder;
  save(Dict{{"x", view_of(value)}}, folder / "x.pt");
  load_state_dict(*module_of(live), load(folder / "x.pt"));
}

TEST(LoadTensors, OfEveryLayout) {
  const at::Tensor value = numbers({3, 4});
  const at::Tensor base = torch::zeros({6, 9});
  for (const at::Tensor& live :
       {torch::zeros({3, 4}), torch::zeros({4, 3}).t(), torch::zeros({3, 4}, at::kHalf),
        torch::zeros({4, 3}, at::kDouble).t(), base.slice(0, 0, 6, 2).slice(1, 0, 8, 2),
        torch::zeros({2, 3, 4}).select(0, 1),
        torch::zeros({4, 3, 2}, at::kDouble).select(2, 1).t()}) {
    load_into(live, value);
    EXPECT_TRUE(torch::equal(live, value.to(live.scalar_type()))) << live.sizes() << live.strides();
    load_into(live, value.t().contiguous().t());
    EXPECT_TRUE(torch::equal(live, value.to(live.scalar_type())));
  }
  // The memory between the elements of a live view is not touched.
  EXPECT_EQ(base.sum().item<double>(), value.sum().item<double>());
  const at::Tensor conjugate = torch::zeros({2, 2}, at::kComplexFloat).conj();
  load_into(conjugate, torch::full({2, 2}, c10::complex<float>(1, 2)));
  EXPECT_TRUE(
      torch::equal(conjugate.resolve_conj(), torch::full({2, 2}, c10::complex<float>(1, 2))));
  const at::Tensor channels_last =
      torch::zeros({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  load_into(channels_last, numbers({2, 3, 4, 5}));
  EXPECT_TRUE(torch::equal(channels_last, numbers({2, 3, 4, 5})));
  EXPECT_TRUE(channels_last.is_contiguous(at::MemoryFormat::ChannelsLast));
  const at::Tensor scalar = torch::zeros({});
  load_into(scalar, numbers({1}));
  EXPECT_EQ(scalar.item<double>(), 1);
}

TEST(LoadTensors, MemoryIsHandedOverOnlyWhereNobodyElseHasIt) {
  const at::Tensor value = numbers({64, 64});
  at::Tensor alone = torch::zeros({64, 64});
  const void* const before = alone.data_ptr();
  load_into(alone, value);
  EXPECT_NE(alone.data_ptr(), before);
  EXPECT_TRUE(torch::equal(alone, value));
  alone.resize_({65, 64});  // The tensor has its own memory, like a new tensor.
  EXPECT_EQ(alone.size(0), 65);

  const at::Tensor viewed = torch::zeros({64, 64});
  const at::Tensor row = viewed[3];
  const Value held = view_of(viewed);
  load_into(viewed, value);
  EXPECT_TRUE(torch::equal(row, value[3]));
  EXPECT_TRUE(torch::equal(tensor_of(held.as_tensor(), /*share=*/true), value));

  std::vector<float> users(64 * 64);
  const at::Tensor foreign = torch::from_blob(users.data(), {64, 64});
  load_into(foreign, value);
  EXPECT_EQ(foreign.data_ptr(), users.data());
  EXPECT_EQ(users[1], 2);
}

// The file has the same storage twice. Afterwards each live tensor has its own storage.
TEST(LoadTensors, WhatTheFileSharesIsNotSharedByTheLiveOnes) {
  const TempFolder folder;
  const at::Tensor value = numbers({64, 64});
  save(Dict{{"a", view_of(value)}, {"b", view_of(value)}, {"c", view_of(value.t())}},
       folder / "x.pt");
  auto module = std::make_shared<torch::nn::Module>();
  const at::Tensor a = module->register_buffer("a", torch::zeros({64, 64}));
  const at::Tensor b = module->register_buffer("b", torch::zeros({64, 64}));
  const at::Tensor c = module->register_buffer("c", torch::zeros({64, 64}).t());
  load_state_dict(*module, load(folder / "x.pt"));
  a.zero_();
  EXPECT_TRUE(torch::equal(b, value));
  EXPECT_TRUE(torch::equal(c, value.t()));
  b.zero_();
  EXPECT_TRUE(torch::equal(c, value.t()));
}

TEST(LoadTensors, TiedOnesStayTied) {
  const TempFolder folder;
  auto module = std::make_shared<torch::nn::Module>();
  const at::Tensor tied = module->register_parameter("a", torch::zeros({64, 64}));
  module->register_buffer("b", tied);
  save(Dict{{"a", view_of(numbers({64, 64}))}, {"b", view_of(numbers({64, 64}) * 2)}},
       folder / "x.pt");
  load_state_dict(*module, load(folder / "x.pt"));
  EXPECT_TRUE(torch::equal(tied, numbers({64, 64}) * 2));  // The last value wins, as in Python.
  EXPECT_EQ(module->named_parameters()["a"].data_ptr(), module->named_buffers()["b"].data_ptr());
}

// The loaded state belongs to one optimizer. Training with this optimizer changes neither another
// optimizer nor a Value.
TEST_F(Loading, AnOptimizersStateIsItsOwn) {
  const Value file = load(path);
  Trainer one(loading_run());
  Trainer other(loading_run());
  load_optimizer_state_dict(*one.state().optimizer, one.state().model->module(),
                            *find_path(file, "state/optimizers/AdamW"));
  const Value states = optimizer_state_dict(*one.state().optimizer, one.state().model->module());
  const Value copy = Snapshotter().take(states);
  load_optimizer_state_dict(*other.state().optimizer, other.state().model->module(), states);
  other.fit();
  EXPECT_EQ(states, copy);
  EXPECT_EQ(optimizer_state_dict(*one.state().optimizer, one.state().model->module()), copy);
}

TEST_F(Loading, WhatABackwardPassStillNeedsCannotBeReplacedUnnoticed) {
  auto module = std::make_shared<torch::nn::Module>();
  const at::Tensor weight = module->register_parameter("w", torch::ones({4}));
  const at::Tensor loss = (weight * weight).sum();
  load_state_dict(*module, Dict{{"w", view_of(numbers({4}))}});
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST_F(Loading, AStateWithoutAModelIsRefused) {
  State state;
  Logger logger(state);
  for (const bool in_place : {false, true}) {
    EXPECT_THROW(load_checkpoint(path, state, logger, {.in_place = in_place}), UsageError);
  }
}

}  // namespace
}  // namespace cairn
