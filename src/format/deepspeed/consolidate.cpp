#include "format/deepspeed/consolidate.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "cairn/error.h"

#include "core/checked.h"
#include "core/round_up.h"
#include "format/deepspeed/gather.h"
#include "format/deepspeed/rank_files.h"
#include "value/numbers.h"
#include "value/tensor/tensor_pieces.h"

namespace cairn::deepspeed {
namespace {

using Shapes = std::vector<std::pair<std::string, Dims>>;

// --- Typed access to the contents of files -------------------------------------------------------

const Value& required(const Value& dict, const char* key) {
  const Value* found = dict.is_dict() ? dict.find(key) : nullptr;
  if (found == nullptr) throw CorruptError(std::string("there is no \"") + key + "\" in it");
  return *found;
}

const Dict* find_dict(const Value& dict, const char* key) {
  const Value* found = dict.is_dict() ? dict.find(key) : nullptr;
  if (found == nullptr || found->is_none()) return nullptr;
  if (!found->is_dict()) throw CorruptError(std::string("\"") + key + "\" is no dict");
  return &found->as_dict();
}

// Returns the items of a list or tuple, and any other value as a list of one.
List as_list(const Value& value) {
  if (value.is_list() || value.is_tuple()) return value.as_items();
  return {value};
}

const TensorView& as_flat(const Value& value) {
  if (!value.is_tensor()) throw CorruptError("a partition is not a tensor");
  check_flat(value.as_tensor());
  if (value.as_tensor().dtype != DType::kFloat32) {
    throw CorruptError("a partition has dtype " + std::string(name(value.as_tensor().dtype)) +
                       ", expected float32");
  }
  return value.as_tensor();
}

std::int64_t as_count(const Value& value) {
  if (!value.is_int() || value.as_int() < 0)
    throw CorruptError("a partition_count is not an integer of at least 0");
  return value.as_int();
}

void append_shapes(const Value& dict, Shapes& shapes) {
  if (!dict.is_dict()) throw CorruptError("param_shapes holds something other than dicts");
  for (const auto& [key, value] : dict.as_dict()) {
    const Size* size = value.get_if<Size>();
    if (!key.is_str() || size == nullptr)
      throw CorruptError("param_shapes holds something other than names with a torch.Size");
    checked_numel(size->dims);
    shapes.emplace_back(key.as_str(), size->dims);
  }
}

// Returns the shapes by group.
std::vector<Shapes> param_shapes(const Value& model) {
  std::vector<Shapes> groups;
  for (const Value& group : as_list(required(model, "param_shapes"))) {
    append_shapes(group, groups.emplace_back());
  }
  return groups;
}

// --- Cutting -------------------------------------------------------------------------------------

std::uint64_t size_of(const TensorView& flat) { return static_cast<std::uint64_t>(flat.shape[0]); }

// Takes consecutive elements from a sequence of flat tensors.
class Reader {
 public:
  explicit Reader(std::vector<TensorView> flats) : flats_(std::move(flats)) {
    for (const TensorView& flat : flats_) {
      total_ = checked_add(total_, size_of(flat));
    }
  }
  std::uint64_t total() const { return total_; }
  std::uint64_t taken() const { return taken_; }

  void take(std::uint64_t count, std::vector<Run>& runs) {
    if (count > total_ - taken_) {
      throw CorruptError("the partitions end too early: " + std::to_string(count) +
                         " elements expected, " + std::to_string(total_ - taken_) + " left");
    }
    taken_ += count;
    while (count > 0) {
      const std::uint64_t here = std::min(count, size_of(flats_[next_]) - begin_);
      if (here > 0) runs.push_back({flats_[next_], begin_, here});
      begin_ += here;
      count -= here;
      if (begin_ == size_of(flats_[next_])) {
        ++next_;
        begin_ = 0;
      }
    }
  }

 private:
  std::vector<TensorView> flats_;
  std::size_t next_ = 0;
  std::uint64_t begin_ = 0;  // in flats_[next_]
  std::uint64_t total_ = 0;
  std::uint64_t taken_ = 0;
};

// Returns the flat tensors of one rank, or of one group over all ranks.
std::vector<TensorView> flats_of(const List& values) {
  std::vector<TensorView> flats;
  for (const Value& value : values) {
    flats.push_back(as_flat(value));
  }
  return flats;
}

void cut_group(const Shapes& shapes, Reader reader, std::size_t ranks, const std::string& scratch,
               Dict& weights) {
  for (const auto& [name, shape] : shapes) {
    std::vector<Run> runs;
    reader.take(checked_numel(shape), runs);
    weights[name] = gather(std::move(runs), shape, scratch);
  }
  // Each rank's slice starts at an even element, so the end may be padded.
  const std::uint64_t align = 2 * static_cast<std::uint64_t>(ranks);
  if (checked_round_up(reader.taken(), align) == checked_round_up(reader.total(), align)) return;
  throw CorruptError("the parameters of a group have " + std::to_string(reader.taken()) +
                     " elements, but its partitions have " + std::to_string(reader.total()));
}

void cut_stage_2(const Ranks& ranks, const std::string& scratch, Dict& weights) {
  const std::vector<Shapes> groups = param_shapes(ranks.model.front());
  std::vector<List> slices(groups.size());  // for each group, by rank
  for (const Value& rank : ranks.optimizer) {
    const List own = as_list(
        required(required(rank, "optimizer_state_dict"), "single_partition_of_fp32_groups"));
    if (own.size() != groups.size()) {
      throw CorruptError(std::to_string(groups.size()) + " groups of parameters, but " +
                         std::to_string(own.size()) + " partitions");
    }
    for (std::size_t g = 0; g < own.size(); ++g) {
      slices[g].push_back(own[g]);
    }
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    cut_group(groups[g], Reader(flats_of(slices[g])), ranks.optimizer.size(), scratch, weights);
  }
}

void cut_stage_3(const Ranks& ranks, const std::string& scratch, Dict& weights) {
  std::vector<Reader> readers;
  for (const Value& rank : ranks.optimizer) {
    readers.emplace_back(
        flats_of(as_list(required(required(rank, "optimizer_state_dict"), "fp32_flat_groups"))));
  }
  const std::uint64_t count = readers.size();
  for (const Shapes& group : param_shapes(ranks.model.front())) {
    for (const auto& [name, shape] : group) {
      std::uint64_t left = checked_numel(shape);
      const std::uint64_t of_rank = (left + count - 1) / count;
      std::vector<Run> runs;
      for (Reader& reader : readers) {
        const std::uint64_t used = std::min(left, of_rank);
        reader.take(used, runs);
        std::vector<Run> padding;
        reader.take(of_rank - used, padding);
        left -= used;
      }
      weights[name] = gather(std::move(runs), shape, scratch);
    }
  }
  for (const Reader& reader : readers) {
    if (reader.taken() == reader.total()) continue;
    throw CorruptError("a rank's parameters have " + std::to_string(reader.taken()) +
                       " elements, but its partition has " + std::to_string(reader.total()));
  }
}

// --- Tensors that are not in the partitions ------------------------------------------------------

// Converts buffers to float32, as zero_to_fp32.py does. Buffers are small.
TensorView as_float32(const TensorView& tensor) {
  if (tensor.dtype == DType::kFloat32) return tensor;
  constexpr std::size_t kPiece = std::size_t{1} << 16;
  auto floats = std::make_shared<std::vector<std::byte>>();
  std::vector<double> numbers;
  TensorPieces pieces(tensor, kPiece);
  for (ByteView piece = pieces.next(); !piece.empty(); piece = pieces.next()) {
    numbers.clear();
    decode_numbers(tensor.dtype, piece, numbers);
    for (const double number : numbers) {
      const auto value = static_cast<float>(number);
      const auto* bytes = reinterpret_cast<const std::byte*>(&value);
      floats->insert(floats->end(), bytes, bytes + sizeof value);
    }
  }
  return make_tensor(DType::kFloat32, tensor.shape, {ByteView(*floats), floats});
}

void add_buffers(const Value& model, Dict& weights) {
  const Dict* module = find_dict(model, "module");
  if (module == nullptr) return;
  for (const Value& name : as_list(required(model, "buffer_names"))) {
    const Value* buffer = module->find(name);
    if (!name.is_str() || buffer == nullptr || !buffer->is_tensor()) continue;
    if (numbers_per_element(buffer->as_tensor().dtype) != 1) {
      throw UnsupportedError("the buffer " + name.as_str() + " is of dtype " +
                             std::string(cairn::name(buffer->as_tensor().dtype)));
    }
    weights[name.as_str()] = as_float32(buffer->as_tensor());
  }
}

// Stage 3 cuts frozen parameters like all others. In lower stages the first rank has them whole.
void add_frozen(const Ranks& ranks, int stage, const std::string& scratch, Dict& weights) {
  const Dict* shapes = find_dict(ranks.model.front(), "frozen_param_shapes");
  if (shapes == nullptr) return;
  Shapes frozen;
  append_shapes(*shapes, frozen);
  for (const auto& [name, shape] : frozen) {
    std::uint64_t left = checked_numel(shape);
    std::vector<Run> runs;
    for (const Value& model : ranks.model) {
      const Value& fragment = required(required(model, "frozen_param_fragments"), name.c_str());
      if (!fragment.is_tensor()) throw CorruptError("the frozen " + name + " is not a tensor");
      if (stage < 3) {
        weights[name] = fragment;
        break;
      }
      check_flat(fragment.as_tensor());
      if (!runs.empty() && runs.front().flat.dtype != fragment.as_tensor().dtype) {
        throw CorruptError("the frozen " + name + " has two dtypes");
      }
      const std::uint64_t used = std::min(left, size_of(fragment.as_tensor()));
      runs.push_back({fragment.as_tensor(), 0, used});
      left -= used;
    }
    if (stage < 3) continue;
    if (left > 0) throw CorruptError("the frozen " + name + " is not whole");
    weights[name] = gather(std::move(runs), shape, scratch);
  }
}

void add_shared(const Value& model, Dict& weights) {
  const Dict* shared = find_dict(model, "shared_params");
  if (shared == nullptr) return;
  for (const auto& [alias, kept] : *shared) {
    if (!alias.is_str() || !kept.is_str())
      throw CorruptError("shared_params holds something other than names");
    const Value* tensor = weights.find(kept);
    if (tensor == nullptr) continue;
    const Value copy = *tensor;
    weights[alias.as_str()] = copy;
  }
}

// --- The ranks -----------------------------------------------------------------------------------

// Returns 1, 2 or 3. BF16_Optimizer's state does not name its stage, which is 1.
int stage_of(const Value& rank) {
  const Value& state = required(rank, "optimizer_state_dict");
  const Value* stage = state.is_dict() ? state.find("zero_stage") : nullptr;
  if (stage == nullptr) {
    required(state, "single_partition_of_fp32_groups");
    return 1;
  }
  if (!stage->is_int() || stage->as_int() < 1 || stage->as_int() > 3) {
    throw UnsupportedError("a ZeRO stage other than 1, 2 or 3");
  }
  return static_cast<int>(stage->as_int());
}

// Throws if files of different saves are mixed, which happens when the tars of two saves are
// unpacked into one folder. Only cairn's own files say which save they belong to.
void check_attempts(const Ranks& ranks) {
  std::string attempt;
  for (const auto* files : {&ranks.model, &ranks.optimizer}) {
    for (const Value& file : *files) {
      if (!has_rank(file)) continue;
      const std::string own = rank_of(file).attempt;
      if (attempt.empty()) attempt = own;
      if (attempt == own) continue;
      throw CorruptError("its files are of different saves: " + attempt + " and " + own +
                         ". Unpack the tars of all ranks of one save into an empty folder");
    }
  }
}

void check_ranks(const Ranks& ranks, int stage) {
  for (std::size_t i = 0; i < ranks.optimizer.size(); ++i) {
    const Value& rank = ranks.optimizer[i];
    if (stage_of(rank) != stage) throw CorruptError("the ranks are of different ZeRO stages");
    std::int64_t count = 0;
    for (const Value& group :
         as_list(required(required(rank, "optimizer_state_dict"), "partition_count"))) {
      count = std::max(count, as_count(group));
    }
    if (static_cast<std::uint64_t>(count) == ranks.optimizer.size()) continue;
    throw CorruptError("rank " + std::to_string(i) + " was one of " + std::to_string(count) +
                       ", but there are files of " + std::to_string(ranks.optimizer.size()));
  }
  if (stage == 3 && ranks.model.size() != ranks.optimizer.size()) {
    throw CorruptError("there are " + std::to_string(ranks.model.size()) +
                       " files of model states, but " + std::to_string(ranks.optimizer.size()) +
                       " of optimizer states");
  }
}

// The result for cairn's stage 0, where the model's file has everything.
Consolidated without_zero(const Value& model) {
  if (find_dict(model, "module") == nullptr) throw CorruptError("there is no \"module\" in it");
  return {.weights = required(model, "module"), .stage = 0, .ranks = 1};
}

}  // namespace

const std::vector<std::string>& data_classes() {
  static const std::vector<std::string> classes = {
      "argparse.Namespace",
      "deepspeed.runtime.fp16.loss_scaler.DynamicLossScaler",
      "deepspeed.runtime.fp16.loss_scaler.LossScaler",
      "deepspeed.runtime.fp16.loss_scaler.LossScalerBase",
      "deepspeed.runtime.zero.config.ZeroStageEnum",
      "deepspeed.runtime.zero.offload_config.OffloadDeviceEnum",
      "deepspeed.utils.tensor_fragment.fragment_address",
  };
  return classes;
}

bool is_without_zero(const Ranks& ranks) {
  return ranks.optimizer.empty() && ranks.model.size() == 1 && has_rank(ranks.model.front()) &&
         rank_of(ranks.model.front()).stage == 0;
}

Consolidated consolidate(const Ranks& ranks, const std::string& scratch_folder) {
  if (ranks.model.empty() || (ranks.optimizer.empty() && !is_without_zero(ranks))) {
    throw CorruptError("there are no files of model states, or none of optimizer states");
  }
  check_attempts(ranks);
  if (ranks.optimizer.empty()) return without_zero(ranks.model.front());
  Consolidated result{
      .weights = {}, .stage = stage_of(ranks.optimizer.front()), .ranks = ranks.optimizer.size()};
  check_ranks(ranks, result.stage);
  Dict weights = Dict::ordered();
  add_buffers(ranks.model.front(), weights);
  add_frozen(ranks, result.stage, scratch_folder, weights);
  if (result.stage == 3) {
    cut_stage_3(ranks, scratch_folder, weights);
  } else {
    cut_stage_2(ranks, scratch_folder, weights);
  }
  add_shared(ranks.model.front(), weights);
  result.weights = std::move(weights);
  return result;
}

}  // namespace cairn::deepspeed
