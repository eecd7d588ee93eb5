// Measures planning a checkpoint of very many ranks, and its `.metadata`:
//   sharded_bench [TENSORS [RANKS]]
// Measures writing one rank's files, compared with save(): sharded_bench --write FOLDER [MIB]
//
// One process describes each rank of a model, and then does the work of rank 0. The model's tensors
// are cut in rows, as by FSDP, or over a mesh of two dimensions. No tensor has bytes: `.metadata`
// is made from reports of files that were never written.
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"

#include "checkpoint/sharded/global_plan.h"
#include "checkpoint/sharded/kept_plan.h"
#include "checkpoint/sharded/rank_files.h"
#include "checkpoint/sharded/rank_plan.h"
#include "checkpoint/sharded/rank_state.h"
#include "core/hash/xxh3.h"
#include "core/text/size_text.h"
#include "format/dcp/metadata/layout.h"
#include "format/dcp/metadata/write_metadata.h"
#include "testing/sharded_folder.h"

namespace cairn {
namespace {

using Clock = std::chrono::steady_clock;
using Shape = std::vector<std::int64_t>;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Processor time of this process, in all threads and in the kernel.
double processor_seconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// A line of /proc/self/status, in bytes.
std::uint64_t memory_of(const std::string& what) {
  std::ifstream status("/proc/self/status");
  for (std::string name; status >> name;) {
    std::uint64_t kib = 0;
    if (name == what + ":" && status >> kib) return kib << 10;
  }
  return 0;
}
void forget_most_memory() { std::ofstream("/proc/self/clear_refs") << "5"; }

// A sink that hashes like a file's writer, but writes no file.
class HashedBytes final : public ByteSink {
 public:
  void write(ByteView bytes) override {
    hash_.write(bytes);
    bytes_ += bytes.size();
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  Xxh3 hash_;
  std::uint64_t bytes_ = 0;
};

// A storage without bytes: nothing here reads them.
class NoBytes final : public Storage {
 public:
  explicit NoBytes(std::uint64_t size) : Storage(size, "cpu") {}

 protected:
  void read(std::uint64_t, std::span<std::byte>) const override {
    throw UsageError("there are no bytes");
  }
};

// Shapes of weights, biases and their two moments, each of another size.
Shape shape_of(std::int64_t tensor) {
  if (tensor % 4 == 3) return {4096 + tensor};
  return {4096 + tensor, 1024 + tensor % 64};
}

dcp::Box rows_of(const Shape& shape, std::int64_t rank, std::int64_t ranks) {
  dcp::Box box{.offsets = Shape(shape.size(), 0), .sizes = shape};
  std::tie(box.offsets[0], box.sizes[0]) = testing::slice_of(shape[0], rank, ranks);
  return box;
}

// Cut over a mesh of `kColumns` columns: tensor rows over the rows of the mesh.
dcp::Box mesh_of(const Shape& shape, std::int64_t rank, std::int64_t ranks) {
  constexpr std::int64_t kColumns = 8;
  if (shape.size() < 2 || ranks % kColumns != 0) return rows_of(shape, rank, ranks);
  dcp::Box box = rows_of(shape, rank / kColumns, ranks / kColumns);
  std::tie(box.offsets[1], box.sizes[1]) = testing::slice_of(shape[1], rank % kColumns, kColumns);
  return box;
}

using Cut = dcp::Box (*)(const Shape& shape, std::int64_t rank, std::int64_t ranks);

sharded::RankState state_of(std::uint32_t rank, std::uint32_t ranks, std::int64_t tensors,
                            Cut cut) {
  Dict model;
  for (std::int64_t t = 0; t < tensors; ++t) {
    const Shape shape = shape_of(t);
    const dcp::Box box = cut(shape, rank, ranks);
    TensorView part{
        .dtype = DType::kFloat32, .shape = box.sizes, .strides = contiguous_strides(box.sizes)};
    part.storage = std::make_shared<const NoBytes>(byte_size(part));
    part.part = std::make_shared<const TensorPart>(TensorPart{shape, box.offsets});
    model[fmt::format("model.layers.{}.attention.weight_{}", t / 16, t % 16)] = part;
  }
  sharded::RankState state({.rank = rank, .world_size = ranks},
                           Dict{{"state", Dict{{"model", model}, {"timestamp", 1}}}});
  state.add_own("rng", Dict{{"torch", 1}, {"python", 2}});
  return state;
}

std::string report_of(const std::string& text, std::uint32_t ranks) {
  const auto plan = sharded::RankPlan::parse(text);
  sharded::RankReport report{.rank = plan.rank, .plan_hash = xxh3_64(as_bytes(text))};
  const std::uint64_t size = (std::uint64_t{64} << 20) / ranks + 4096;  // an arbitrary size
  for (const bool is_written : plan.writes) {
    if (is_written) report.places.push_back({0, size * report.places.size(), size});
  }
  report.files.push_back({size * report.places.size(), std::string(kSealDigits, '0')});
  return report.text();
}

// Measures rank 0's work in later saves, when all ranks have the same parts as before.
void measure_next(std::vector<sharded::Description> ranks) {
  std::vector<sharded::KeptPlan> kept(ranks.size());
  for (int save = 0; save < 3; ++save) {
    const std::string asked = kept[0].ask(std::to_string(save), ranks[0]);
    std::vector<std::string> answers(1);
    std::uint64_t told = 0;
    Clock::time_point begin = Clock::now();
    for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
      answers.push_back(kept[rank].answer(asked, ranks[rank]));
      told += answers.back().size();
    }
    const double answering = seconds_since(begin) / static_cast<double>(ranks.size());
    begin = Clock::now();
    const auto plan = kept[0].plan(ranks[0], static_cast<std::uint32_t>(ranks.size()),
                                   [&](std::uint32_t rank) { return std::move(answers[rank]); });
    fmt::print("  save {}: a rank answers in {:.3f} ms, all with {}; planning {:.3f} s{}\n",
               save + 1, 1e3 * answering, size_text(told), seconds_since(begin),
               save == 0 ? fmt::format(", {} to be kept", size_text(plan->memory())) : "");
  }
}

// Measures rank 0's work with all reports, except writing the file.
void measure_metadata(const sharded::GlobalPlan& plan, const std::vector<std::string>& reports) {
  forget_most_memory();
  const std::uint64_t memory = memory_of("VmRSS");
  const Clock::time_point begin = Clock::now();
  const double processor = processor_seconds();
  const auto content =
      plan.content({reports.begin(), reports.end()}, {.file_names = {}, .save_id = "attempt"});
  const double parsed = processor_seconds() - processor;
  HashedBytes written;
  dcp::write_metadata(*content, written);
  fmt::print(
      "  .metadata {:.3f} s, {:.3f} of a processor ({:.3f} for the reports), {}, {:.1f} bytes a "
      "chunk; {} of memory\n",
      seconds_since(begin), processor_seconds() - processor, parsed, size_text(written.bytes()),
      static_cast<double>(written.bytes()) / static_cast<double>(plan.chunks()),
      size_text(memory_of("VmHWM") - memory));
}

void measure(const char* name, std::int64_t tensors, std::uint32_t ranks, Cut cut) {
  std::vector<std::string> names;
  std::vector<std::string> parts;
  std::vector<sharded::Description> described;
  std::uint64_t bytes = 0;
  double seconds = 0;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const sharded::RankState state = state_of(rank, ranks, tensors, cut);
    const Clock::time_point begin = Clock::now();
    sharded::Description own = describe(state);
    seconds += seconds_since(begin);
    if (names.empty() || names.back() != own.names) names.push_back(own.names);
    // Only rank 0's names are kept; a thousand copies would take most of the memory.
    if (rank > 0) own.names.clear();
    bytes += own.parts.size();
    parts.push_back(own.parts);
    described.push_back(std::move(own));
  }
  fmt::print("{}: {} tensors x {} ranks\n", name, tensors, ranks);
  fmt::print("  a rank describes itself in {:.1f} ms, {} of names and {} of parts\n",
             1e3 * seconds / ranks, size_text(names.front().size()), size_text(bytes / ranks));
  Clock::time_point begin = Clock::now();
  const sharded::GlobalPlan plan(names, std::move(parts));
  fmt::print("  planning {:.3f} s ({} chunks)\n", seconds_since(begin), plan.chunks());
  begin = Clock::now();
  std::vector<std::string> plans;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    plans.push_back(plan.plan_of(rank));
  }
  fmt::print("  plans of all ranks {:.3f} s, {} each\n", seconds_since(begin),
             size_text(plans.front().size()));
  measure_next(std::move(described));
  const sharded::RankState first = state_of(0, ranks, tensors, cut);
  begin = Clock::now();
  const sharded::RankFiles files(first, plans.front());
  fmt::print("  laying out rank 0's files {:.1f} ms\n", 1e3 * seconds_since(begin));
  std::vector<std::string> reports;
  for (const std::string& text : plans) {
    reports.push_back(report_of(text, ranks));
  }
  for (int save = 0; save < 3; ++save)
    measure_metadata(plan, reports);
  begin = Clock::now();
  // More would need too much memory for most machines.
  constexpr std::uint64_t kMaxToRead = 1000000;
  if (plan.chunks() <= kMaxToRead) {
    const std::string metadata = plan.metadata(reports);
    begin = Clock::now();
    dcp::Metadata parsed = dcp::parse_metadata({as_bytes(metadata), nullptr});
    for (dcp::Item& item : parsed.items) {
      dcp::check_layout(item);
    }
    fmt::print("  reading it {:.3f} s\n", seconds_since(begin));
  }
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print("  most memory so far {}\n",
             size_text(static_cast<std::uint64_t>(usage.ru_maxrss) << 10));
}

// Measures 64 tensors, written durably into `folder`.
void measure_writing(const std::string& folder, std::size_t mib) {
  constexpr std::int64_t kTensors = 64;
  const std::size_t each = (mib << 20) / kTensors;
  const auto bytes = std::make_shared<const std::vector<std::byte>>(kTensors * each, std::byte{7});
  Dict model;
  for (std::int64_t t = 0; t < kTensors; ++t) {
    const ByteView part = ByteView(*bytes).subspan(static_cast<std::size_t>(t) * each, each);
    model[fmt::format("t{}", t)] =
        make_tensor(DType::kUInt8, {static_cast<std::int64_t>(each)}, {part, bytes});
  }
  const Value tree = Dict{{"model", model}};
  const auto store = local_store();
  for (int round = 0; round < 3; ++round) {
    Clock::time_point begin = Clock::now();
    save(tree, folder + "/sharded_bench.pt");
    fmt::print("save {:.2f} s", seconds_since(begin));
    store->remove(folder + "/sharded_bench.pt");
    for (const std::size_t files : {1, 2, 4}) {
      begin = Clock::now();
      testing::write_ranks(*store, folder + "/sharded_bench", {{{0, 1, 0}, tree}},
                           {.files = files});
      fmt::print(", {} data files {:.2f} s", files, seconds_since(begin));
      store->remove_folder(folder + "/sharded_bench");
    }
    fmt::print("\n");
  }
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  if (argc > 2 && std::string_view(argv[1]) == "--write") {
    const std::size_t mib = argc > 3 ? static_cast<std::size_t>(std::atoi(argv[3])) : 1024;
    cairn::measure_writing(argv[2], mib);
    return 0;
  }
  const std::int64_t tensors = argc > 1 ? std::atoll(argv[1]) : 10000;
  const auto ranks = static_cast<std::uint32_t>(argc > 2 ? std::atoi(argv[2]) : 1024);
  cairn::measure("rows", tensors, ranks, cairn::rows_of);
  cairn::measure("mesh of 8 columns", tensors, ranks, cairn::mesh_of);
}
