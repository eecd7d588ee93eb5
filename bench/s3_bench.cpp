// What uploads and downloads cost, beside those of curl, and of boto3 where there is one, to the
// same server, which keeps nothing (testing/s3_sink.cpp).
//
//   s3_bench [MIB [ROUNDS [FOLDER]]]
//
// Prints, of the median round: wall time and processor time of cairn; the wall time of curl (one
// connection) and of boto3 (s3_peer.py), both from and to a file in memory, and theirs by cairn's;
// and the most memory of an upload. With a folder, on the disk that is meant, also a save() of as
// many bytes to the server, by the slower of one into the folder, durable, and an upload.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "cairn/byte_source.h"
#include "cairn/checkpoint/checkpoint.h"
#include "cairn/storage/s3.h"

#include "testing/child_process.h"

namespace {

using cairn::testing::ChildProcess;

constexpr std::size_t kBlock = std::size_t{16} << 20;

class Cost {
 public:
  void add(double wall, double cpu) {
    wall_.push_back(wall);
    cpu_.push_back(cpu);
  }
  bool any() const { return !wall_.empty(); }
  double wall() const { return median(wall_); }
  double cpu() const { return median(cpu_); }

 private:
  static double median(std::vector<double> all) {
    std::nth_element(all.begin(), all.begin() + all.size() / 2, all.end());
    return all[all.size() / 2];
  }
  std::vector<double> wall_;
  std::vector<double> cpu_;
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

// A checkpoint of so many bytes.
cairn::Value weights(const std::vector<std::byte>& bytes) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  cairn::TensorView tensor = cairn::make_tensor(cairn::DType::kUInt8, {size}, {bytes, nullptr});
  return cairn::Dict{{"weight", std::move(tensor)}};
}

template <class Work>
void measure(Cost& cost, const Work& work) {
  const double cpu = cpu_now();
  const auto begin = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  cost.add(took.count(), cpu_now() - cpu);
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

// Nothing where there is no boto3.
void run_boto3(Cost& cost, const std::vector<std::string>& arguments) {
  std::vector<std::string> argv = {"/usr/bin/env", "python3", CAIRN_S3_PEER};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  ChildProcess boto3(argv);
  if (boto3.wait().exit_code == 0) cost.add(std::stod(boto3.output()), 0);
}

void print_peer(const char* name, const Cost& peer, const Cost& cairn, double at_least) {
  if (!peer.any()) return;
  std::printf("   %s %6.2f s, ratio %5.2f (at least %.1f)", name, peer.wall(),
              peer.wall() / cairn.wall(), at_least);
}

struct Way {
  Cost cairn;
  Cost curl;
  Cost boto3;
  void print(const char* what, std::size_t bytes) const {
    const double gib = static_cast<double>(bytes) / (1 << 30);
    std::printf("%-9s %6.2f s %6.2f s cpu/GiB", what, cairn.wall(), cairn.cpu() / gib);
    print_peer("curl", curl, cairn, 1);
    print_peer("boto3", boto3, cairn, 2);
    std::printf("\n");
  }
};

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
  const std::string size = std::to_string(bytes);
  Way up, down;
  const long before = peak_mib();
  long after_upload = before;
  for (int round = 0; round < rounds; ++round) {
    measure(up.cairn, [&] { upload(*store, block, bytes); });
    after_upload = peak_mib();
    measure(up.curl, [&] {
      run_curl({"-o", "/dev/null", "-H", "Expect:", "-T", file, url + "/bucket/raw"});
    });
    run_boto3(up.boto3, {url, "upload", size, file});
  }
  std::vector<std::byte> place(bytes);
  for (int round = 0; round < rounds; ++round) {
    measure(down.cairn, [&] { download(*store, place, bytes); });
    measure(down.curl, [&] { run_curl({"-o", file, url + "/bucket/zeros-" + size}); });
    run_boto3(down.boto3, {url, "download", size, file});
  }
  std::remove(file.c_str());
  Cost there, here;
  const std::string folder = argc > 3 ? argv[3] : "";
  for (int round = 0; round < rounds && !folder.empty(); ++round) {
    measure(there, [&] { cairn::save(weights(place), "saved.pt", {.store = store}); });
    const std::string path = folder + "/s3_bench.pt";
    measure(here, [&] { cairn::save(weights(place), path); });
    std::remove(path.c_str());
    ::sync();
  }
  std::printf("%zu MiB, medians of %d\n", bytes >> 20, rounds);
  up.print("upload", bytes);
  down.print("download", bytes);
  if (there.any()) {
    const double slower = std::max(here.wall(), up.cairn.wall());
    std::printf("save there %5.2f s   here %5.2f s   ratio to the slower %4.2f (at most 1.2)\n",
                there.wall(), here.wall(), there.wall() / slower);
  }
  std::printf("memory of an upload: %ld MiB more (at most 64)\n", after_upload - before);
}
