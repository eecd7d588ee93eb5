// What uploads and downloads cost, beside those of curl to the same server, which keeps nothing
// (testing/s3_sink.cpp).
//
//   s3_bench [MIB [ROUNDS]]
//
// Prints, of the best round: wall time, processor time and peak memory of cairn, the wall time of
// curl (one connection, from a file in memory and to nowhere), and curl's time by cairn's.
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "cairn/byte_source.h"
#include "cairn/storage/s3.h"

#include "testing/child_process.h"

namespace {

using cairn::testing::ChildProcess;

constexpr std::size_t kBlock = std::size_t{16} << 20;

struct Cost {
  double wall = 1e9;
  double cpu = 1e9;
};

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

double cpu_now() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

long peak_mib() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss >> 10;
}

template <class Work>
void measure(Cost& best, const Work& work) {
  const double cpu = cpu_now();
  const auto begin = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  best.wall = std::min(best.wall, took.count());
  best.cpu = std::min(best.cpu, cpu_now() - cpu);
}

void upload(cairn::ObjectStore& store, const std::vector<std::byte>& block, std::size_t bytes) {
  const auto object = store.begin("upload", {.expected_bytes = bytes});
  for (std::size_t done = 0; done < bytes; done += block.size()) {
    object->write(cairn::ByteView(block).first(std::min(block.size(), bytes - done)));
  }
  object->commit();
}

void download(cairn::ObjectStore& store, std::vector<std::byte>& place, std::size_t bytes) {
  const auto source = store.open("zeros-" + std::to_string(bytes));
  const cairn::ByteSource::Range range{0, std::span(place).first(bytes)};
  source->read({&range, 1});
}

void run_curl(const std::vector<std::string>& arguments) {
  std::vector<std::string> argv = {"/usr/bin/curl", "-sf"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  ChildProcess curl(argv);
  if (curl.wait().exit_code != 0) {
    std::fprintf(stderr, "curl failed: %s\n", curl.output().c_str());
    std::exit(2);
  }
}

void print(const char* what, const Cost& cairn, const Cost& curl, std::size_t bytes) {
  const double gib = static_cast<double>(bytes) / (1 << 30);
  std::printf("%-9s %7.2f s %7.2f s cpu/GiB   curl %7.2f s   ratio %5.2f (at least 1.0)\n", what,
              cairn.wall, cairn.cpu / gib, curl.wall, curl.wall / cairn.wall);
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t bytes = (argc > 1 ? std::stoull(argv[1]) : 1024) << 20;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
  ChildProcess server({CAIRN_S3_SINK});
  const auto line = server.wait_for_line("http://");
  if (!line) return 2;
  const std::string url = line->substr(0, line->find('\n'));
  const auto store = cairn::s3_store({.bucket = "bucket",
                                      .endpoint_url = url,
                                      .access_key_id = "AKID",
                                      .secret_access_key = "secret"});
  std::vector<std::byte> block(kBlock);
  std::mt19937_64 random(1);
  for (std::byte& byte : block)
    byte = static_cast<std::byte>(random());
  upload(*store, block, kBlock);  // connections, and what is learned of the server

  const std::string file = "/dev/shm/cairn_s3_bench";
  run_curl({"-o", file, url + "/bucket/zeros-" + std::to_string(bytes)});
  Cost up, down, curl_up, curl_down;
  const long before = peak_mib();
  long after_upload = before;
  for (int round = 0; round < rounds; ++round) {
    measure(up, [&] { upload(*store, block, bytes); });
    after_upload = peak_mib();
    measure(curl_up, [&] {
      run_curl({"-o", "/dev/null", "-H", "Expect:", "-T", file, url + "/bucket/raw"});
    });
  }
  std::vector<std::byte> place(bytes);
  for (int round = 0; round < rounds; ++round) {
    measure(down, [&] { download(*store, place, bytes); });
    measure(curl_down, [&] {
      run_curl({"-o", "/dev/null", url + "/bucket/zeros-" + std::to_string(bytes)});
    });
  }
  std::remove(file.c_str());
  std::printf("%zu MiB, best of %d\n", bytes >> 20, rounds);
  print("upload", up, curl_up, bytes);
  print("download", down, curl_down, bytes);
  std::printf("memory of an upload: %ld MiB more (at most 64)\n", after_upload - before);
}
