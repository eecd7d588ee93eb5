// The processes of a job, started by a test.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "testing/child_process.h"

namespace cairn::testing {

// One that the machine gives to whoever asks for any, and nobody has now.
inline std::string free_port() {
  const int socket_number = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const auto any = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(bind(socket_number, any, size), 0);
  EXPECT_EQ(getsockname(socket_number, any, &size), 0);
  close(socket_number);
  return std::to_string(ntohs(address.sin_port));
}

class Job {
 public:
  // `world_size` processes that are told so; `started` of them, all by default.
  Job(int world_size, const std::vector<std::string>& command, int started = -1) {
    const std::string port = free_port();
    for (int rank = 0; rank < (started < 0 ? world_size : started); ++rank) {
      std::vector<std::string> argv = {"/usr/bin/env",
                                       "RANK=" + std::to_string(rank),
                                       "WORLD_SIZE=" + std::to_string(world_size),
                                       "LOCAL_RANK=" + std::to_string(rank),
                                       "LOCAL_WORLD_SIZE=" + std::to_string(world_size),
                                       "NODE_RANK=0",
                                       "MASTER_ADDR=127.0.0.1",
                                       "MASTER_PORT=" + port,
                                       "OMP_NUM_THREADS=1"};
      argv.insert(argv.end(), command.begin(), command.end());
      ranks.push_back(std::make_unique<ChildProcess>(argv));
    }
  }

  // Waits for all; those that were killed have -1.
  std::vector<int> exit_codes() {
    std::vector<int> codes;
    for (const auto& rank : ranks)
      codes.push_back(rank->wait().exit_code);
    return codes;
  }
  const std::string& output(std::size_t rank) const { return ranks.at(rank)->output(); }

  std::vector<std::unique_ptr<ChildProcess>> ranks;
};

// What stands behind `begin` in the first line that begins so; empty when none does.
inline std::string rest_of_line(const std::string& output, const std::string& begin) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(begin)) return line.substr(begin.size());
  }
  return "";
}

// The numbers behind "loss", by batch.
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

}  // namespace cairn::testing
