// Compares the saves of several processes with golden files: the calls of a store and of a file
// system, and the number of collectives of each event. golden_trace.h says how to write the golden
// files anew.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "job.h"
#include "testing/golden_trace.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using cairn::testing::expect_trace;
using cairn::testing::Job;
using cairn::testing::operator+;
using cairn::testing::outputs_of;
using cairn::testing::TempFolder;
using ::testing::Each;

using Lines = std::vector<std::string>;

// Ranks that begin at the same time may see each other's probe of the folder, or not.
bool is_of_another_probe(const std::string& line) {
  return line.find(".cairn-tmp-probe-") != std::string::npos && !line.starts_with("create ") &&
         !line.starts_with("unlink ");
}

Lines trace_in(const std::string& output) {
  const std::string begin = "trace ";
  std::istringstream all(output);
  Lines lines;
  for (std::string line; std::getline(all, line);) {
    if (!line.starts_with(begin)) continue;
    line.erase(0, begin.size());
    if (!is_of_another_probe(line)) lines.push_back(line);
  }
  return lines;
}

// The traces of all ranks. A trace that equals the previous rank's is not repeated.
Lines traces_of(int ranks, const std::vector<std::string>& arguments) {
  const TempFolder folder;
  Job job(ranks, std::vector<std::string>{TRACE_PROGRAM} + arguments +
                     std::vector<std::string>{"folder=" + folder.path()});
  EXPECT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  Lines all;
  Lines before;
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back("==== rank " + std::to_string(rank) + " of " + std::to_string(ranks));
    const Lines own = trace_in(job.output(static_cast<std::size_t>(rank)));
    EXPECT_FALSE(own.empty());
    if (own == before) all.emplace_back("as the rank before");
    if (own != before) all.insert(all.end(), own.begin(), own.end());
    before = own;
  }
  return all;
}

class TracesOfRanks : public ::testing::TestWithParam<const char*> {
 public:
  static std::string layout() { return GetParam(); }
};

INSTANTIATE_TEST_SUITE_P(Layouts, TracesOfRanks, ::testing::Values("file", "sharded", "tars"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(TracesOfRanks, StoreCallsOfSavesAreAsWritten) {
  expect_trace("ranks_store_" + layout(), traces_of(2, {"trace=store", "layout=" + layout()}));
}

TEST_P(TracesOfRanks, StoreCallsOfSavesInTheBackgroundAreTheSame) {
  expect_trace("ranks_store_" + layout(),
               traces_of(2, {"trace=store", "layout=" + layout(), "async=1"}));
}

TEST_P(TracesOfRanks, SystemCallsOfSavesAreAsWritten) {
  expect_trace("ranks_files_" + layout(), traces_of(2, {"trace=files", "layout=" + layout()}));
}

TEST_P(TracesOfRanks, CollectivesOfEachEventAreAsWritten) {
  Lines all;
  for (const int ranks : {1, 2, 3})
    all = all + traces_of(ranks, {"trace=collectives", "layout=" + layout()});
  expect_trace("ranks_collectives_" + layout(), all);
}

// The messages of each batch of a job of two ranks: one of rank_batch.h, and one bucket of
// gradients.
Lines messages_of_batches(const std::vector<std::string>& arguments) {
  Job job(2, std::vector<std::string>{TRACE_PROGRAM, "trace=messages"} + arguments);
  EXPECT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  const Lines lines = trace_in(job.output(0));
  EXPECT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines, trace_in(job.output(1)));
  return lines;
}

TEST(MessagesOfABatch, AreOneBesidesTheGradients) {
  EXPECT_THAT(messages_of_batches({"model=plain"}), Each("all_reduce 2"));
}

TEST(MessagesOfABatch, HaveBuffersOnlyIfTheseChange) {
  EXPECT_THAT(messages_of_batches({"model=constant"}), Each("all_reduce 2"));
  EXPECT_THAT(messages_of_batches({"model=norm"}), Each("all_reduce 2, broadcast 1"));
}

TEST(MessagesOfABatch, AreOneMoreForACallbackThatNeedsTheLosses) {
  EXPECT_THAT(messages_of_batches({"model=plain", "losses=1"}), Each("all_reduce 3"));
}

TEST(MessagesOfABatch, AreTwoMoreForACallbackThatMayChangeTheBatch) {
  EXPECT_THAT(messages_of_batches({"model=plain", "changes=1"}), Each("all_reduce 4"));
}

}  // namespace
}  // namespace cairn
