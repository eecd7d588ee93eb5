// Compares the cost of uploads and downloads with other clients of the same server, which keeps
// nothing (testing/s3_sink.cpp). Variants: plain HTTP; plain HTTP with unsigned content
// (S3Options::unsigned_payload), as with curl; and TLS with a certificate of its own. In the last
// two variants the server keeps a CRC-64, as Amazon's does. With --real, the server is that of
// S3_ENDPOINT_URL, with the keys of the environment and a bucket called "bucket".
//
//   s3_bench [--plain | --unsigned | --tls | --real] [MIB [ROUNDS [FOLDER]]]
//   tests/net/with_radosgw build/release/bin/s3_bench --real 512 3
//
// For each client it prints medians: wall time, its processor time, the server's processor time,
// and the ratio to cairn's wall time. Client and server together cannot take less than their
// processor time divided by the number of cores, which is also printed. Other clients upload from a
// file in memory, and download to one. curl runs in every round, with one connection. boto3
// (s3_peer.py), aws and rclone run in three rounds, if they are installed; the time of the same
// command for one byte is subtracted. Then it prints the peak memory of an upload. If FOLDER is
// given, it also compares a save() to the server with the slower of two: a durable save() into
// FOLDER, and an upload of as many bytes.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cairn/byte_source.h"
#include "cairn/checkpoint/checkpoint.h"
#include "cairn/storage/s3.h"

#include "testing/child_process.h"
#include "testing/temp_folder.h"

namespace {

using cairn::testing::ChildProcess;
using Arguments = std::vector<std::string>;

constexpr std::size_t kBlock = std::size_t{16} << 20;
constexpr const char* kFile = "/dev/shm/cairn_s3_bench";
constexpr const char* kByteFile = "/dev/shm/cairn_s3_bench_byte";
constexpr int kSlowRounds = 3;

// --- Measurements -----------------------------------------------------------------------------

struct Cost {
  double wall = 0;
  double cpu = 0;
  double server_cpu = 0;
};

class Costs {
 public:
  void add(const Cost& cost) {
    wall_.push_back(cost.wall);
    cpu_.push_back(cost.cpu);
    server_cpu_.push_back(cost.server_cpu);
  }
  double wall() const { return median(wall_); }
  double cpu() const { return median(cpu_); }
  double server_cpu() const { return median(server_cpu_); }

 private:
  static double median(std::vector<double> all) {
    std::nth_element(all.begin(), all.begin() + all.size() / 2, all.end());
    return all[all.size() / 2];
  }
  std::vector<double> wall_;
  std::vector<double> cpu_;
  std::vector<double> server_cpu_;
};

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

std::string server_pid;  // of the running server

// All threads of the server so far, in ticks of 10 ms.
double server_cpu_now() {
  if (server_pid.empty()) return 0;  // unknown with --real
  std::ifstream file("/proc/" + server_pid + "/stat");
  std::string field;
  double ticks = 0;
  for (int i = 1; i <= 15 && file >> field; ++i) {
    if (i >= 14) ticks += std::stod(field);  // proc(5): utime, stime
  }
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// The processor time of this process, or of the children that were waited for. The server is not
// among them.
double cpu_now(int whose) {
  rusage usage = {};
  getrusage(whose, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

Cost measured(int whose, const std::function<void()>& work) {
  const double cpu = cpu_now(whose);
  const double server_cpu = server_cpu_now();
  const auto begin = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return {took.count(), cpu_now(whose) - cpu, server_cpu_now() - server_cpu};
}

// A line of /proc/self/status, in MiB.
long memory(const char* line) {
  std::FILE* const file = std::fopen("/proc/self/status", "r");
  long kib = 0;
  char text[256];
  const std::string format = std::string(line) + ": %ld";
  while (file != nullptr && std::fgets(text, sizeof(text), file) != nullptr) {
    if (std::sscanf(text, format.c_str(), &kib) == 1) break;
  }
  if (file != nullptr) std::fclose(file);
  return kib >> 10;
}

void forget_peak() {
  std::FILE* const file = std::fopen("/proc/self/clear_refs", "w");
  if (file == nullptr) return;
  std::fputs("5", file);
  std::fclose(file);
}

// --- The server ----------------------------------------------------------------------------------

enum class Kind { kPlain, kUnsigned, kTls, kReal };

class Server {
 public:
  explicit Server(Kind kind) {
    if (kind == Kind::kReal) {
      const char* const url = getenv("S3_ENDPOINT_URL");
      if (url == nullptr) fail("--real", "S3_ENDPOINT_URL is not set");
      url_ = url;
      return;
    }
    Arguments argv = {CAIRN_S3_SINK};
    if (kind == Kind::kUnsigned) argv.emplace_back("--crc64");
    if (kind == Kind::kTls) {
      make_certificate();
      argv.insert(argv.end(), {folder_ / "key.pem", ca_file()});
      setenv("AWS_CA_BUNDLE", ca_file().c_str(), 1);
    }
    process_.emplace(argv);
    const auto pid = process_->wait_for_line("pid ");
    const auto line = process_->wait_for_line("://");
    if (!pid || !line) fail("s3_sink", process_->output());
    server_pid = pid->substr(4, pid->find('\n') - 4);
    url_ = line->substr(0, line->find('\n'));
  }
  const std::string& url() const { return url_; }
  std::string ca_file() const { return folder_ / "ca.pem"; }

  [[noreturn]] static void fail(const std::string& what, const std::string& output) {
    std::fprintf(stderr, "%s failed: %s\n", what.c_str(), output.c_str());
    std::exit(2);
  }

 private:
  void make_certificate() {
    ChildProcess made({"/usr/bin/env", "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                       "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1", "-subj",
                       "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
                       folder_ / "key.pem", "-out", ca_file()});
    if (made.wait().exit_code != 0) fail("openssl", made.output());
  }

  cairn::testing::TempFolder folder_;
  std::optional<ChildProcess> process_;
  std::string url_;
};

// --- The clients ---------------------------------------------------------------------------------

// A checkpoint of that size.
cairn::Value weights(const std::vector<std::byte>& bytes) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  cairn::TensorView tensor = cairn::make_tensor(cairn::DType::kUInt8, {size}, {bytes, nullptr});
  return cairn::Dict{{"weight", std::move(tensor)}};
}

void upload(cairn::ObjectStore& store, const std::vector<std::byte>& block, std::size_t bytes,
            const std::string& name = "upload") {
  const auto object = store.begin(name, {.expected_bytes = bytes});
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

std::string run(const Arguments& command) {
  ChildProcess process(command);
  if (process.wait().exit_code != 0) Server::fail(command[1] + " " + command[2], process.output());
  return process.output();
}

// Another client: its commands to send a file and to fetch an object of zeros of that size.
struct Peer {
  std::string name;
  double at_least;
  std::function<Arguments(const std::string& file)> sends;
  std::function<Arguments(const std::string& object, const std::string& file)> fetches;
  bool is_slow = true;
  bool prints_cost = false;  // it prints its wall and processor time

  Cost cost_of(const Arguments& command) const {
    std::string told;
    const Cost whole = measured(RUSAGE_CHILDREN, [&] { told = run(command); });
    if (!prints_cost) return whole;
    const std::size_t space = told.find(' ');
    return {std::stod(told), std::stod(told.substr(space)), whole.server_cpu};
  }
  Cost cost(const Arguments& command, const Arguments& of_a_byte) const {
    const Cost start = is_slow && !prints_cost ? cost_of(of_a_byte) : Cost();
    const Cost whole = cost_of(command);
    return {whole.wall - start.wall, whole.cpu - start.cpu, whole.server_cpu - start.server_cpu};
  }
};

// This benchmark's own server accepts requests without a signature; for another server, boto3 signs
// the address.
Peer curl(const Server& server, Kind kind) {
  Arguments start = {"/usr/bin/env", "curl", "-sf"};
  if (kind == Kind::kTls) start.insert(start.end(), {"--cacert", server.ca_file()});
  const auto with = [start](Arguments more) {
    more.insert(more.begin(), start.begin(), start.end());
    return more;
  };
  const auto address = [url = server.url(), kind](const char* method, const std::string& object) {
    if (kind != Kind::kReal) return url + "/bucket/" + object;
    std::string text = run({"/usr/bin/env", "python3", CAIRN_S3_PEER, url, "sign", object, method});
    return text.substr(0, text.find('\n'));
  };
  return {.name = "curl",
          .at_least = 1,
          .sends =
              [with, to = address("put_object", "raw")](const std::string& file) {
                return with({"-o", "/dev/null", "-H", "Expect:", "-T", file, to});
              },
          .fetches =
              [with, address](const std::string& object, const std::string& file) {
                return with({"-o", file, address("get_object", object)});
              },
          .is_slow = false};
}

Peer boto3(const Server& server) {
  const Arguments start = {"/usr/bin/env", "python3", CAIRN_S3_PEER, server.url()};
  const auto with = [start](const char* way, const std::string& object, const std::string& file) {
    Arguments all = start;
    all.insert(all.end(), {way, object, file});
    return all;
  };
  return {.name = "boto3",
          .at_least = 2,
          .sends = [=](const std::string& file) { return with("upload", "boto3", file); },
          .fetches = [=](const std::string& object,
                         const std::string& file) { return with("download", object, file); },
          .prints_cost = true};
}

Peer awscli(const Server& server) {
  const Arguments start = {"/usr/bin/env", "aws", "--endpoint-url",    server.url(),
                           "s3",           "cp",  "--only-show-errors"};
  const auto with = [start](const std::string& from, const std::string& to) {
    Arguments all = start;
    all.insert(all.end(), {from, to});
    return all;
  };
  return {.name = "aws",
          .at_least = 2,
          .sends = [=](const std::string& file) { return with(file, "s3://bucket/aws"); },
          .fetches = [=](const std::string& object,
                         const std::string& file) { return with("s3://bucket/" + object, file); }};
}

Peer rclone(const Server& server) {
  Arguments start = {"/usr/bin/env",
                     "-u",
                     "AWS_CA_BUNDLE",
                     "rclone",
                     "--config=",
                     "--s3-provider=Other",
                     "--s3-env-auth",
                     "--s3-no-check-bucket",
                     "--ignore-times",
                     "--s3-region=us-east-1",
                     "--s3-endpoint=" + server.url()};
  if (server.url().starts_with("https:")) start.push_back("--ca-cert=" + server.ca_file());
  start.push_back("copyto");
  const auto with = [start](const std::string& from, const std::string& to) {
    Arguments all = start;
    all.insert(all.end(), {from, to});
    return all;
  };
  return {.name = "rclone",
          .at_least = 2,
          .sends = [=](const std::string& file) { return with(file, ":s3:bucket/rclone"); },
          .fetches = [=](const std::string& object,
                         const std::string& file) { return with(":s3:bucket/" + object, file); }};
}

bool is_there(const Arguments& command) {
  ChildProcess process(command);
  return process.wait().exit_code == 0;
}

std::vector<Peer> peers_of(const Server& server, Kind kind) {
  std::vector<Peer> peers = {curl(server, kind)};
  const auto add = [&](const Arguments& asks, Peer peer) {
    if (is_there(asks)) {
      peers.push_back(std::move(peer));
    } else {
      std::printf("%s: not installed, passed over\n", peer.name.c_str());
    }
  };
  add({"/usr/bin/env", "python3", "-c", "import boto3"}, boto3(server));
  add({"/usr/bin/env", "aws", "--version"}, awscli(server));
  add({"/usr/bin/env", "rclone", "version"}, rclone(server));
  return peers;
}

// --- The table -----------------------------------------------------------------------------------

struct DirectionCosts {
  Costs cairn = {};
  std::vector<Costs> peers = {};
};

void print_costs(const char* what, const char* name, const Costs& costs, double gib) {
  std::printf("%-9s %-6s %6.2f s %6.2f s cpu/GiB, server %5.2f", what, name, costs.wall(),
              costs.cpu() / gib, costs.server_cpu() / gib);
}

void print_direction(const char* what, const DirectionCosts& direction,
                     const std::vector<Peer>& peers, std::size_t bytes) {
  const double gib = static_cast<double>(bytes) / (1 << 30);
  const double cores = std::max(1U, std::thread::hardware_concurrency());
  print_costs(what, "cairn", direction.cairn, gib);
  std::printf("   on %.0f cores at least %.2f s\n", cores,
              (direction.cairn.cpu() + direction.cairn.server_cpu()) / cores);
  for (std::size_t i = 0; i < peers.size(); ++i) {
    const Costs& costs = direction.peers[i];
    print_costs("", peers[i].name.c_str(), costs, gib);
    std::printf("   ratio %5.2f (at least %.1f)\n", costs.wall() / direction.cairn.wall(),
                peers[i].at_least);
  }
}

struct Wanted {
  std::size_t bytes = 0;
  int rounds = 5;
  std::string folder = {};
};

class Bench {
 public:
  Bench(Kind kind, Wanted wanted)
      : kind_(kind),
        wanted_(std::move(wanted)),
        server_(kind),
        store_(cairn::s3_store({.bucket = "bucket",
                                .endpoint_url = server_.url(),
                                .unsigned_payload = kind == Kind::kUnsigned})),
        peers_(peers_of(server_, kind)),
        block_(kBlock),
        zeros_("zeros-" + std::to_string(wanted_.bytes)) {
    std::mt19937_64 random(1);
    for (std::byte& byte : block_)
      byte = static_cast<std::byte>(random());
    upload(*store_, block_, kBlock);  // open connections, and learn about the server
    if (kind == Kind::kReal) make_zeros();
    run(peers_[0].fetches(zeros_, kFile));
    run(peers_[0].fetches("zeros-1", kByteFile));
  }

  void measure() {
    std::printf("%s%s, %zu MiB, medians of %d\n", server_.url().c_str(),
                kind_ == Kind::kUnsigned ? ", unsigned" : "", wanted_.bytes >> 20, wanted_.rounds);
    std::fflush(stdout);
    measure_up();
    print_direction("upload", up_, peers_, wanted_.bytes);
    std::vector<std::byte> place(wanted_.bytes);
    measure_down(place);
    print_direction("download", down_, peers_, wanted_.bytes);
    if (!wanted_.folder.empty()) measure_save(place);
    std::printf("memory of an upload: %ld MiB more (at most 64)\n", upload_mib_);
    std::fflush(stdout);
  }

 private:
  // This benchmark's own server has every object of this name.
  void make_zeros() {
    const std::vector<std::byte> zeros(kBlock);
    upload(*store_, zeros, wanted_.bytes, zeros_);
    upload(*store_, zeros, 1, "zeros-1");
  }

  void measure_up() {
    up_.peers.resize(peers_.size());
    for (int round = 0; round < wanted_.rounds; ++round) {
      forget_peak();
      const long before = memory("VmRSS");
      up_.cairn.add(measured(RUSAGE_SELF, [&] { upload(*store_, block_, wanted_.bytes); }));
      upload_mib_ = std::max(upload_mib_, memory("VmHWM") - before);
      for (std::size_t i = 0; i < peers_.size(); ++i) {
        if (round >= kSlowRounds && peers_[i].is_slow) continue;
        up_.peers[i].add(peers_[i].cost(peers_[i].sends(kFile), peers_[i].sends(kByteFile)));
      }
    }
  }

  void measure_down(std::vector<std::byte>& place) {
    down_.peers.resize(peers_.size());
    for (int round = 0; round < wanted_.rounds; ++round) {
      down_.cairn.add(measured(RUSAGE_SELF, [&] { download(*store_, place, wanted_.bytes); }));
      for (std::size_t i = 0; i < peers_.size(); ++i) {
        if (round >= kSlowRounds && peers_[i].is_slow) continue;
        down_.peers[i].add(peers_[i].cost(peers_[i].fetches(zeros_, kFile),
                                          peers_[i].fetches("zeros-1", kByteFile)));
      }
    }
  }

  void measure_save(const std::vector<std::byte>& place) {
    Costs there, here;
    const std::string path = wanted_.folder + "/s3_bench.pt";
    for (int round = 0; round < wanted_.rounds; ++round) {
      there.add(measured(RUSAGE_SELF,
                         [&] { cairn::save(weights(place), "saved.pt", {.store = store_}); }));
      here.add(measured(RUSAGE_SELF, [&] { cairn::save(weights(place), path); }));
      std::remove(path.c_str());
      ::sync();
    }
    const double slower = std::max(here.wall(), up_.cairn.wall());
    std::printf("save there %5.2f s   here %5.2f s   ratio to the slower %4.2f (at most 1.2)\n",
                there.wall(), here.wall(), there.wall() / slower);
  }

  Kind kind_;
  Wanted wanted_;
  Server server_;
  std::shared_ptr<cairn::ObjectStore> store_;
  std::vector<Peer> peers_;
  std::vector<std::byte> block_;
  std::string zeros_;
  DirectionCosts up_;
  DirectionCosts down_;
  long upload_mib_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Arguments given(argv + 1, argv + argc);
  std::string only;
  if (!given.empty() && given[0].starts_with("--")) {
    only = given[0];
    given.erase(given.begin());
  }
  for (const auto& [name, value] :
       {std::pair{"AWS_ACCESS_KEY_ID", "AKID"}, std::pair{"AWS_SECRET_ACCESS_KEY", "secret"},
        std::pair{"AWS_DEFAULT_REGION", "us-east-1"},
        std::pair{"AWS_EC2_METADATA_DISABLED", "true"}}) {
    setenv(name, value, only == "--real" ? 0 : 1);
  }
  const Wanted wanted = {
      .bytes = (given.empty() ? 1024 : std::stoull(given[0])) << 20,
      .rounds = given.size() > 1 ? std::atoi(given[1].c_str()) : 5,
      .folder = given.size() > 2 ? given[2] : "",
  };
  for (const auto& [flag, kind] :
       {std::pair{"--plain", Kind::kPlain}, std::pair{"--unsigned", Kind::kUnsigned},
        std::pair{"--tls", Kind::kTls}}) {
    if (only.empty() || only == flag) Bench(kind, wanted).measure();
  }
  if (only == "--real") Bench(Kind::kReal, wanted).measure();
  std::remove(kFile);
  std::remove(kByteFile);
}
