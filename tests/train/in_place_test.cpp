// Loading straight into the weights: LoadCheckpointOptions::in_place.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cairn/error.h"
#include "cairn/format/torch_file.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"

#include "checkpoint/open/checkpoint.h"
#include "checkpoint/open/source.h"
#include "storage/local/local_store.h"
#include "testing/faulty_file_system.h"
#include "testing/loading_run.h"
#include "testing/recording_source.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::current_checkpoint;
using testing::FaultyFileSystem;
using testing::FileCall;
using ::testing::HasSubstr;
using testing::loading_run;
using ::testing::Not;
using testing::RecordingSource;
using testing::TempFolder;

struct InPlaceLoading : ::testing::Test {
  InPlaceLoading() {
    Trainer trainer(loading_run());
    trainer.fit();
    path = trainer.save_checkpoint(folder / "saved.pt");
    saved = current_checkpoint(trainer);
  }

  // The record of a model's parameter in a file with these bytes.
  static FileRecord record_of(const std::string& bytes, const std::string& parameter) {
    const auto source = source_of({as_bytes(bytes), nullptr}, "file");
    const TorchFile file(source);
    const Value root = file.read();
    const auto storage = root.at("state").at("model").at(parameter).as_tensor().storage;
    for (const FileRecord& record : file.records()) {
      if (record.offset == storage->source_offset()) return record;
    }
    ADD_FAILURE() << parameter << " is in no record";
    return {};
  }

  TempFolder folder;
  std::string path;
  Value saved;
};

std::string first_parameter(Trainer& trainer) {
  return trainer.state().model->module().named_parameters().keys().front();
}

std::vector<const void*> places_of(Trainer& trainer) {
  std::vector<const void*> places;
  for (const at::Tensor& tensor : trainer.state().model->module().parameters()) {
    places.push_back(tensor.data_ptr());
  }
  return places;
}

TEST_F(InPlaceLoading, GivesTheSameStateWithoutOtherMemory) {
  Trainer reference(loading_run());
  load_checkpoint(path, reference.state(), reference.logger());
  Trainer trainer(loading_run());
  const auto before = places_of(trainer);
  const auto version = trainer.state().model->module().parameters().front()._version();
  load_checkpoint(path, trainer.state(), trainer.logger(), {.in_place = true});
  EXPECT_EQ(current_checkpoint(trainer), current_checkpoint(reference));
  EXPECT_EQ(places_of(trainer), before);
  EXPECT_GT(trainer.state().model->module().parameters().front()._version(), version);

  TrainerOptions options = loading_run();
  options.load_path = path;
  options.load_in_place = true;
  Trainer made(options);
  EXPECT_EQ(current_checkpoint(made).at("state").at("model"), saved.at("state").at("model"));
}

TEST_F(InPlaceLoading, ReadsEveryByteOfATensorOnce) {
  const auto source = std::make_shared<const RecordingSource>(posix_file_system().open(path));
  const Checkpoint opened = Checkpoint::Impl::make(path, open_file_source(source, path));
  Trainer trainer(loading_run());
  load_checkpoint(opened, trainer.state(), trainer.logger(), {.in_place = true});
  const TorchFile file(posix_file_system().open(path));
  for (const FileRecord& record : file.records()) {
    // Opening a file may read tensors at its end.
    if (!record.name.starts_with("data/") || record.size == 0) continue;
    const auto [least, most] = source->times(record.offset, record.offset + record.size);
    EXPECT_GE(least, 1) << record.name;
    EXPECT_LE(most, 2) << record.name;
  }
}

TEST_F(InPlaceLoading, SaysThatTheWeightsAreLostAndTakesAnotherCheckpointThen) {
  const std::string good = testing::read_file(path);
  Trainer trainer(loading_run());
  Value before = current_checkpoint(trainer);
  std::string bad = good;
  const FileRecord record = record_of(good, first_parameter(trainer));
  bad[record.offset + record.size - 1] ^= 1;
  testing::write_file(folder / "bad.pt", bad);
  try {
    load_checkpoint(folder / "bad.pt", trainer.state(), trainer.logger(), {.in_place = true});
    ADD_FAILURE() << "no error";
  } catch (const CorruptError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("bad.pt"), HasSubstr(record.name),
                                HasSubstr("overwritten in place, are lost"),
                                Not(HasSubstr("bad.pt, nothing was changed"))));
  }
  Value after = current_checkpoint(trainer);
  EXPECT_NE(after, before);
  for (Value* each : {&before, &after}) {
    each->mutable_dict()["state"].mutable_dict().erase("model");
  }
  EXPECT_EQ(after, before) << "all but the weights";
  load_checkpoint(path, trainer.state(), trainer.logger(), {.in_place = true});
  EXPECT_EQ(current_checkpoint(trainer).at("state").at("model"), saved.at("state").at("model"));
}

TEST_F(InPlaceLoading, DamageElsewhereAndWhatDoesNotFitChangeNothing) {
  const std::string good = testing::read_file(path);
  Trainer trainer(loading_run());
  const Value before = current_checkpoint(trainer);
  const auto source = source_of({as_bytes(good), nullptr}, path);
  const Value file = TorchFile(source).read();
  const Value& moments =
      file.at("state").at("optimizers").at("AdamW").at("state").at(first_parameter(trainer));
  std::string bad = good;
  bad[moments.at("exp_avg").as_tensor().storage->source_offset()] ^= 1;
  testing::write_file(folder / "bad.pt", bad);
  EXPECT_THROW(
      load_checkpoint(folder / "bad.pt", trainer.state(), trainer.logger(), {.in_place = true}),
      CorruptError);
  EXPECT_EQ(current_checkpoint(trainer), before);

  TrainerOptions other = loading_run();
  other.optimizers = SGD({.lr = 0.1});
  Trainer misfit(other);
  const Value unlike = current_checkpoint(misfit);
  EXPECT_THROW(load_checkpoint(path, misfit.state(), misfit.logger(), {.in_place = true}),
               MismatchError);
  EXPECT_EQ(current_checkpoint(misfit), unlike);
}

// Weights that share memory, in the file or in the model, or that have another type, are loaded in
// the general way instead of in place.
struct Shared final : Model {
  explicit Shared(bool is_tied, at::ScalarType type = at::kFloat, std::int64_t rows = 64) {
    const at::Tensor both = torch::rand({rows, 32}, type);
    net->register_parameter("a", both);
    net->register_parameter("b", is_tied ? both : torch::rand({rows, 32}, type));
    net->register_buffer("part", both.detach().narrow(0, 3, 5));
    net->register_buffer("apart", torch::rand({1000}, type));
  }
  torch::nn::Module& module() override { return *net; }
  Outputs forward(const Batch& /*batch*/) override { return {}; }
  Losses loss(const Outputs& /*outputs*/, const Batch& /*batch*/) override { return {}; }
  std::shared_ptr<torch::nn::Module> net = std::make_shared<torch::nn::Module>();
};

TEST(InPlace, SharedMemoryEndsAsItDoesOtherwise) {
  const TempFolder folder;
  for (const bool is_tied_there : {true, false}) {
    State made;
    made.model = std::make_shared<Shared>(is_tied_there);
    const std::string path = save_checkpoint(made, folder / "shared.pt", {.weights_only = true});
    for (const bool is_tied_here : {true, false}) {
      for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
        std::vector<Value> loaded;
        for (const bool in_place : {false, true}) {
          State state;
          state.model = std::make_shared<Shared>(is_tied_here, type);
          Logger logger(state);
          load_checkpoint(path, state, logger, {.load_weights_only = true, .in_place = in_place});
          loaded.push_back(Snapshotter().take(state_dict(state.model->module())));
        }
        EXPECT_EQ(loaded[0], loaded[1]) << is_tied_there << is_tied_here << type;
      }
    }
  }
}

TEST(InPlace, AReadThatFailsSaysWhatItCost) {
  const TempFolder folder;
  const auto weights = [](State& state) {
    return Snapshotter().take(state_dict(state.model->module()));
  };
  State made;
  made.model = std::make_shared<Shared>(false, at::kFloat, 20'000);  // 5 MB: read in pieces.
  const std::string path = save_checkpoint(made, folder / "large.pt", {.weights_only = true});
  int untouched = 0;
  int lost = 0;
  for (std::uint64_t n = 1;; ++n) {
    State state;
    state.model = std::make_shared<Shared>(false, at::kFloat, 20'000);
    Logger logger(state);
    const Value before = weights(state);
    FaultyFileSystem files(posix_file_system());
    files.fail(FileCall::kRead, n, EIO);
    try {
      load_checkpoint(open_checkpoint(path, local_store(files)), state, logger,
                      {.load_weights_only = true, .in_place = true});
      EXPECT_EQ(weights(state), weights(made));
      break;
    } catch (const StorageError& e) {
      const bool is_lost = std::string(e.what()).find("are lost") != std::string::npos;
      ++(is_lost ? lost : untouched);
      if (!is_lost) {
        ASSERT_EQ(weights(state), before) << "read " << n;
      }
    }
  }
  EXPECT_GT(untouched, 0);
  EXPECT_GT(lost, 0);
}

// The file is so large that it is decoded while the disk delivers it, from the page cache and past
// it.
TEST(InPlace, ALargeFileThatIsNotCachedIsReadWhole) {
  const TempFolder folder;
  State made;
  made.model = std::make_shared<Shared>(false, at::kFloat, 160'000);  // Two weights of 20 MB.
  const std::string path = save_checkpoint(made, folder / "large.pt", {.weights_only = true});
  for (int i = 0; i < 3; ++i) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    EXPECT_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    ::close(fd);
    State state;
    state.model = std::make_shared<Shared>(false, at::kFloat, 160'000);
    Logger logger(state);
    load_checkpoint(path, state, logger, {.load_weights_only = true, .in_place = true});
    EXPECT_EQ(state_dict(state.model->module()), state_dict(made.model->module()));
  }
}

TEST_F(InPlaceLoading, AutoresumeGoesOnToTheOlderOneAndNeverStartsAfreshAfterwards) {
  TrainerOptions options = loading_run();
  options.save_folder = folder / "ckpt";
  options.save_filename = "ba{batch}.pt";
  options.save_interval = "1ba";
  options.autoresume = true;
  options.load_in_place = true;
  std::string parameter;
  {
    Trainer trainer(options);
    trainer.fit();
    parameter = first_parameter(trainer);
  }
  const auto spoil = [&](const std::string& file) {
    std::string bytes = testing::read_file(file);
    bytes[record_of(bytes, parameter).offset] ^= 1;
    testing::write_file(file, bytes);
  };
  spoil(folder / "ckpt/ba3.pt");
  {
    Trainer resumed(options);
    EXPECT_EQ(resumed.state().timestamp.batch, 2);
    EXPECT_EQ(current_checkpoint(resumed).at("state").at("model"),
              load(folder / "ckpt/ba2.pt").at("state").at("model"));
  }
  spoil(folder / "ckpt/ba2.pt");
  spoil(folder / "ckpt/ba1.pt");
  EXPECT_THROW(Trainer{options}, CorruptError);
  options.load_in_place = false;
  EXPECT_EQ(Trainer(options).state().timestamp.batch, 0);
}

// If a file lacks some weights, their content would be undefined.
TEST_F(InPlaceLoading, AnOlderCheckpointHasToReplaceAllWeightsThatWereLost) {
  TrainerOptions options = loading_run();
  options.save_folder = folder / "ckpt";
  options.save_filename = "ba{batch}.pt";
  options.save_interval = "1ba";
  options.autoresume = true;
  options.load_strict_model_weights = false;
  const std::string parameter = "first.weight";
  options.max_duration = "1ba";
  options.save_ignore_keys = IgnoreKeys(std::vector<std::string>{"state/model/" + parameter});
  Trainer(options).fit();
  options.max_duration = "2ba";
  options.save_ignore_keys = IgnoreKeys();
  Trainer(options).fit();
  options.load_in_place = true;
  std::string bytes = testing::read_file(folder / "ckpt/ba2.pt");
  bytes[record_of(bytes, parameter).offset] ^= 1;
  testing::write_file(folder / "ckpt/ba2.pt", bytes);
  try {
    const Trainer trainer(options);
    ADD_FAILURE() << "no error";
  } catch (const MismatchError& e) {
    EXPECT_THAT(e.what(), HasSubstr(parameter));
  }
}

// Weights in memory that libtorch did not allocate. The memory is not aligned, or another weight
// shares it.
struct Borrowed final : Model {
  explicit Borrowed(std::size_t begin) : bytes(64 * sizeof(float) + 1) {
    const auto at = [this](std::size_t offset, std::int64_t count) {
      return torch::from_blob(bytes.data() + offset, {count}, torch::kFloat);
    };
    net->register_buffer("a", at(begin, 48));
    net->register_buffer("b", at(begin + 32 * sizeof(float), 32));
    for (const at::Tensor& tensor : net->buffers()) {
      std::memset(tensor.data_ptr(), 0, tensor.nbytes());
    }
  }
  torch::nn::Module& module() override { return *net; }
  Outputs forward(const Batch& /*batch*/) override { return {}; }
  Losses loss(const Outputs& /*outputs*/, const Batch& /*batch*/) override { return {}; }
  std::vector<std::byte> bytes;
  std::shared_ptr<torch::nn::Module> net = std::make_shared<torch::nn::Module>();
};

TEST(InPlace, BorrowedMemoryEndsAsItDoesOtherwise) {
  const TempFolder folder;
  const auto net = std::make_shared<torch::nn::Module>();
  net->register_buffer("a", torch::rand({48}));
  net->register_buffer("b", torch::rand({32}));
  const Value weights = state_dict(*net);
  save(Dict{{"state", Dict{{"model", weights}}}}, folder / "borrowed.pt");
  for (const std::size_t begin : {0, 1}) {
    std::vector<std::vector<std::byte>> loaded;
    for (const bool in_place : {false, true}) {
      State state;
      const auto model = std::make_shared<Borrowed>(begin);
      state.model = model;
      Logger logger(state);
      load_checkpoint(folder / "borrowed.pt", state, logger,
                      {.load_weights_only = true, .in_place = in_place});
      loaded.push_back(model->bytes);
    }
    EXPECT_EQ(loaded[0], loaded[1]) << begin;
  }
}

TEST(InPlace, WhatIsItsOwnMemoryStaysAndCountsAsWritten) {
  Shared model(/*is_tied=*/false);
  const at::Tensor apart = model.net->named_buffers()["apart"];
  const at::Tensor before = apart.clone();
  const auto version = apart._version();
  load_state_dict(model.module(), state_dict(model.module()));
  EXPECT_TRUE(torch::equal(apart, before));
  EXPECT_GT(apart._version(), version);
}

TEST(InPlace, BytesThatTensorsAreMadeOfAreCheckedToo) {
  const TempFolder folder;
  std::string bytes = testing::read_file(CAIRN_TEST_DATA "/big-endian/big_endian.pt");
  const TorchFile file(source_of({as_bytes(bytes), nullptr}, "file"));
  const auto& records = file.records();
  const auto data = std::ranges::find_if(records, [](const FileRecord& record) {
    return record.name.starts_with("data/") && record.size > 0;
  });
  ASSERT_NE(data, records.end());
  bytes[data->offset] ^= 1;
  testing::write_file(folder / "bad.pt", bytes);
  const Checkpoint opened = open_checkpoint(folder / "bad.pt");
  const Value value = load(opened, {.verify = Verify::kQuick});
  std::vector<std::vector<std::byte>> places;
  std::vector<StorageRead> reads;
  for (const auto& [name, tensor] : tensors_of(value)) {
    places.emplace_back(tensor->storage->size());
    reads.push_back({tensor->storage, places.back()});
  }
  EXPECT_FALSE(opened.read(reads, Verify::kWhatIsRead).ok());
}

}  // namespace
}  // namespace cairn
