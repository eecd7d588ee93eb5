// Compares the calls that saves make to a far store, their order and their conditions with golden
// files. golden_trace.h says how to rewrite the golden files.
#include <gtest/gtest.h>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"

#include "storage/local/local_store.h"
#include "testing/golden_trace.h"
#include "testing/temp_folder.h"
#include "testing/traced_runs.h"
#include "testing/tracing_files.h"
#include "testing/tracing_store.h"

namespace cairn {
namespace {

using testing::expect_trace;
using testing::TempFolder;
using testing::Trace;
using testing::TracedLayout;
using testing::TracedRuns;
using testing::TracingFiles;
using testing::TracingStore;

// Saves in the background make the same calls in the same order.
struct StoreTraceCase {
  const char* name;
  TracedLayout layout;
  bool is_async = false;
  const char* golden = name;
};

void PrintTo(const StoreTraceCase& of, std::ostream* out) { *out << of.name; }  // NOLINT: gtest's

class StoreTrace : public ::testing::TestWithParam<StoreTraceCase> {};

INSTANTIATE_TEST_SUITE_P(
    Layouts, StoreTrace,
    ::testing::Values(StoreTraceCase{"far", TracedLayout::kOneFile},
                      StoreTraceCase{"far_async", TracedLayout::kOneFile, true, "far"},
                      StoreTraceCase{"far_sharded", TracedLayout::kShardedFolder},
                      StoreTraceCase{"far_sharded_async", TracedLayout::kShardedFolder, true,
                                     "far_sharded"},
                      StoreTraceCase{"far_tars", TracedLayout::kTars},
                      StoreTraceCase{"far_tars_async", TracedLayout::kTars, true, "far_tars"}),
    [](const auto& test) { return test.param.name; });

TEST_P(StoreTrace, OfARunsSavesIsAsWritten) {
  TracedRuns runs{.layout = GetParam().layout, .is_async = GetParam().is_async};
  runs.store = std::make_shared<TracingStore>(memory_store(), runs.trace);
  runs.all();
  expect_trace(std::string("store_") + GetParam().golden, runs.trace->lines());
}

// A folder of this machine, from which a logger sends checkpoints to a store. Sharded checkpoints
// are sent while they are saved, so the calls of the save and of the upload are traced. Files are
// sent by a separate thread, so only the store's calls are traced.
struct UploadTraceCase {
  const char* name;
  TracedLayout layout;
  bool is_async = false;
  int keeps = 2;
  const char* golden = name;
};

void PrintTo(const UploadTraceCase& of, std::ostream* out) { *out << of.name; }  // NOLINT: gtest's

class UploadTrace : public ::testing::TestWithParam<UploadTraceCase> {};

INSTANTIATE_TEST_SUITE_P(
    Layouts, UploadTrace,
    ::testing::Values(UploadTraceCase{"file", TracedLayout::kOneFile},
                      UploadTraceCase{"file_async", TracedLayout::kOneFile, true, 2, "file"},
                      UploadTraceCase{"file_kept_there_only", TracedLayout::kOneFile, false, 0},
                      UploadTraceCase{"sharded", TracedLayout::kShardedFolder},
                      UploadTraceCase{"sharded_kept_there_only", TracedLayout::kShardedFolder,
                                      false, 0}),
    [](const auto& test) { return test.param.name; });

TEST_P(UploadTrace, OfARunsSavesIsAsWritten) {
  const auto& of = GetParam();
  const TempFolder folder;
  TracedRuns runs{.trace = std::make_shared<Trace>(folder.path()),
                  .folder = folder / "run",
                  .layout = of.layout,
                  .is_async = of.is_async,
                  .keeps = of.keeps};
  TracingFiles files(posix_file_system(), runs.trace);
  runs.has_marks = of.layout == TracedLayout::kShardedFolder;
  runs.store = runs.has_marks ? local_store(files) : local_store();
  runs.uploads_to = std::make_shared<TracingStore>(memory_store(), runs.trace);
  runs.all();
  expect_trace(std::string("uploads_") + of.golden, runs.trace->lines());
}

TEST(StoreTraceOfFunctions, OfSaveIsAsWritten) {
  const auto trace = std::make_shared<Trace>();
  const auto store = std::make_shared<TracingStore>(memory_store(), trace);
  const Value value = Dict{{"a", 1}};
  trace->begin("a new checkpoint");
  save(value, "run/a.pt", {.store = store});
  trace->begin("over it");
  save(value, "run/a.pt", {.overwrite = true, .store = store});
  trace->begin("refused");
  EXPECT_THROW(save(value, "run/a.pt", {.overwrite = false, .store = store}), AlreadyExistsError);
  expect_trace("store_save", trace->lines());
}

}  // namespace
}  // namespace cairn
