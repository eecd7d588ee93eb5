// The processes of a job, started by a test.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "io/file_descriptor.h"
#include "io/process/reserved_port.h"
#include "testing/child_process.h"
#include "testing/command.h"
#include "testing/temp_folder.h"

namespace cairn::testing {

class Job {
 public:
  // Starts the first `started` (by default all) of the job's `world_size` processes.
  Job(int world_size, const Command& command, int started = -1) {
    for (int rank = 0; rank < (started < 0 ? world_size : started); ++rank)
      start({.rank = rank, .node = 0, .local_rank = rank, .local_world_size = world_size},
            world_size, command);
  }

  // Starts a job that runs on several machines according to the launcher's variables. `nodes`: the
  // node of each rank, by rank.
  Job(const std::vector<int>& nodes, const Command& command) {
    const auto world_size = static_cast<int>(nodes.size());
    std::map<int, int> here;
    for (int rank = 0; rank < world_size; ++rank) {
      const int node = nodes[static_cast<std::size_t>(rank)];
      start({.rank = rank,
             .node = node,
             .local_rank = here[node]++,
             .local_world_size = static_cast<int>(std::ranges::count(nodes, node))},
            world_size, command);
    }
  }

  // Waits for all processes. The exit code of a killed process is -1.
  std::vector<int> exit_codes() {
    std::vector<int> codes;
    for (const auto& rank : ranks)
      codes.push_back(rank->wait().exit_code);
    return codes;
  }
  const std::string& output(std::size_t rank) const { return ranks.at(rank)->output(); }

  std::vector<std::unique_ptr<ChildProcess>> ranks;

 private:
  struct Place {
    int rank = 0;
    int node = 0;
    int local_rank = 0;
    int local_world_size = 1;
  };
  void start(const Place& place, int world_size, const Command& command) {
    const Command environment = {"/usr/bin/env",
                                 "RANK=" + std::to_string(place.rank),
                                 "WORLD_SIZE=" + std::to_string(world_size),
                                 "LOCAL_RANK=" + std::to_string(place.local_rank),
                                 "LOCAL_WORLD_SIZE=" + std::to_string(place.local_world_size),
                                 "NODE_RANK=" + std::to_string(place.node),
                                 "MASTER_ADDR=127.0.0.1",
                                 "MASTER_PORT=" + std::to_string(port_.number()),
                                 "OMP_NUM_THREADS=1"};
    // Between machines Gloo looks up this machine's name, which may be unknown here.
    const bool is_one_machine = place.local_world_size == world_size;
    const Command where = is_one_machine ? Command{} : Command{"GLOO_SOCKET_IFNAME=lo"};
    ranks.push_back(std::make_unique<ChildProcess>(environment + where + command));
  }

  ReservedPort port_;
};

// Processes of jobs with short deadlines wait at a Gate for each other before they begin, because
// the time to start a process must not count against such a deadline.
class Gate {
 public:
  Gate() : file_(open(path_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600)) {
    EXPECT_EQ(flock(file_.get(), LOCK_EX), 0);
  }
  std::string argument() const { return "gate=" + path_; }
  void open_for(const std::vector<Job*>& jobs) {
    for (const Job* job : jobs) {
      for (const auto& rank : job->ranks)
        EXPECT_TRUE(rank->wait_for_line("comes")) << rank->output();
    }
    file_.close();
  }

 private:
  const TempFolder folder_;
  const std::string path_ = folder_ / "gate";
  FileDescriptor file_;
};

// The outputs of all ranks, one after the other.
inline std::string outputs_of(const Job& job) {
  std::string all;
  for (const auto& rank : job.ranks)
    all += rank->output();
  return all;
}

// The names in a folder, sorted; none if the folder does not exist.
inline std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  if (!std::filesystem::exists(folder)) return names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

// The rest of the first line that begins with `begin`; empty if there is no such line.
inline std::string rest_of_line(const std::string& output, const std::string& begin) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(begin)) return line.substr(begin.size());
  }
  return "";
}

// The numbers after "loss" in the output, by batch.
inline std::map<int, double> losses_of(const std::string& output) {
  std::map<int, double> losses;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    int batch = 0;
    long long samples = 0;
    double loss = 0;
    if (std::sscanf(line.c_str(), "batch %d samples %lld loss %lf", &batch, &samples, &loss) == 3) {
      losses[batch] = loss;
    }
  }
  return losses;
}

inline void expect_near(const std::map<int, double>& a, const std::map<int, double>& b,
                        double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  ASSERT_FALSE(a.empty());
  for (const auto& [batch, loss] : a) {
    ASSERT_TRUE(b.contains(batch)) << batch;
    EXPECT_NEAR(loss, b.at(batch), tolerance) << "batch " << batch;
  }
}

inline Command program(const Command& arguments) { return Command{DIST_PROGRAM} + arguments; }

// The arguments of one process for several cases, one after the other.
inline Command in_turn(const std::vector<Command>& cases) {
  Command all;
  for (const Command& each : cases) {
    if (!all.empty()) all.emplace_back("--");
    all = all + each;
  }
  return program(all);
}

// The output of the process for one of the cases.
inline std::string part(const std::string& output, std::size_t number) {
  const auto begin = output.find("case " + std::to_string(number) + "\n");
  if (begin == std::string::npos) return "";
  return output.substr(begin, output.find("case " + std::to_string(number + 1) + "\n") - begin);
}

// A run with everything that a rank draws at random, and everything that ranks share.
inline const Command kDifficult = {"train", "dropout=30", "norm=1", "samples=40", "duration=3ep"};

}  // namespace cairn::testing
