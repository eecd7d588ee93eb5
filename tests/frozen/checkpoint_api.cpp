// Frozen: users' programs, see CMakeLists.txt. Checkpoints without libtorch: values of every kind;
// opening, verifying and reading checkpoints; names; times.
#include <complex>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cairn/checkpoint.h"
#include "cairn/checkpoint/sharded.h"

#include "core_programs.h"

namespace frozen {
namespace {

cairn::TensorView tensor_of(std::vector<float> numbers) {
  const auto owner = std::make_shared<const std::vector<float>>(std::move(numbers));
  const auto size = static_cast<std::int64_t>(owner->size());
  return cairn::make_tensor(cairn::DType::kFloat32, {size / 2, 2},
                            {std::as_bytes(std::span(*owner)), owner});
}

std::vector<float> numbers_in(const cairn::TensorView& tensor) {
  const cairn::SharedBytes bytes = tensor.contiguous_bytes();
  const auto* numbers = reinterpret_cast<const float*>(bytes.view.data());
  return {numbers, numbers + bytes.view.size() / sizeof(float)};
}

cairn::Value every_kind() {
  cairn::Dict state{{"none", cairn::None{}},
                    {"bool", true},
                    {"int", 3},
                    {"big", ~std::uint64_t{0}},
                    {"float", 0.5},
                    {"complex", std::complex<double>(1, 2)},
                    {"str", "text"},
                    {"bytes", cairn::Bytes{std::string("a\0b", 3)}},
                    {"list", cairn::List{1, "two", 3.0}},
                    {"tuple", cairn::Tuple{{1, 2}}},
                    {"set", cairn::Set{{1, 2}}},
                    {"delta", cairn::TimeDelta{.days = 1, .seconds = 2}},
                    {"dtype", cairn::DType::kBFloat16},
                    {"device", cairn::Device{"cuda:1"}},
                    {7, "a key that is a number"}};
  state.set("model", cairn::Dict::ordered(
                         {{"fc.weight", tensor_of({1, 2, 3, 4})}, {"fc.bias", tensor_of({5, 6})}}));
  cairn::Value value = state;
  value.mutable_dict()["nested"] = cairn::Dict{{"items", cairn::List{cairn::Dict{{"deep", 1}}}}};
  return value;
}

void look_into(const cairn::Value& value) {
  check(value.is_dict() && value.type_name() == "dict", "it is a dict");
  check(value.at("none").is_none() && value.at("bool").as_bool(), "None and bool");
  check(value.at("int").as_int() == 3 && value.at("float").as_float() == 0.5, "int and float");
  check(value.at("big").get_if<cairn::BigInt>()->text() == "18446744073709551615", "a large one");
  check(value.at("str").as_str() == "text" && value.at("bytes").as_bytes().data.size() == 3, "str");
  check(value.at("list").is_list() && value.at("list").as_items().size() == 3, "a list");
  check(value.at("tuple").is_tuple() && value.at("set").as_set().items.size() == 2, "a tuple");
  check(value.at("delta").as_timedelta().total_seconds() == 86402, "a timedelta");
  check(*value.at("dtype").get_if<cairn::DType>() == cairn::DType::kBFloat16, "a dtype");
  check(value.at("device").get_if<cairn::Device>()->name == "cuda:1", "a device");
  check(value.find("nowhere") == nullptr, "what is not there is not found");
  check(value.as_dict().find(7)->as_str() == "a key that is a number", "any key");
  check(cairn::find_path(value, "nested/items/0/deep")->as_int() == 1, "a path");
  const auto tensors = cairn::tensors_of(value);
  check(tensors.size() == 2 && tensors[0].first == "model/fc.weight", "all tensors");
  const cairn::TensorView& weight = value.at("model").at("fc.weight").as_tensor();
  check(weight.dtype == cairn::DType::kFloat32 && weight.numel() == 4, "its elements");
  check(weight.shape.size() == 2 && weight.shape[0] == 2 && weight.shape[1] == 2, "its shape");
  check(numbers_in(weight) == std::vector<float>{1, 2, 3, 4}, "its numbers");
  check(value.at("model").as_dict().is_ordered(), "an OrderedDict");
  bool was_refused = false;
  try {
    (void)value.at("int").as_str();
  } catch (const cairn::UsageError&) {
    was_refused = true;
  }
  check(was_refused, "an int is no text");
}

// Changes one byte of a tensor.
void damage(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(in), {});
  const float two = 2;
  const std::string wanted(reinterpret_cast<const char*>(&two), sizeof two);
  bytes.at(bytes.find(wanted)) ^= 1;
  std::ofstream(path, std::ios::binary) << bytes;
}

void read_into_memory(const cairn::Checkpoint& checkpoint) {
  const cairn::Value value = cairn::load(checkpoint, {.verify = cairn::Verify::kQuick});
  const cairn::TensorView& weight = value.at("model").at("fc.weight").as_tensor();
  std::vector<float> all(4);
  check(weight.storage->size() == sizeof(float) * all.size(), "a storage's size");
  const auto report = checkpoint.read(
      {{.storage = weight.storage, .into = std::as_writable_bytes(std::span(all))}});
  check(report.ok() && all == std::vector<float>{1, 2, 3, 4}, "all of it");
  std::vector<float> row(2);
  const auto of_part =
      cairn::read_parts(checkpoint, {{.name = "model.fc.weight",
                                      .dtype = cairn::DType::kFloat32,
                                      .global_shape = {2, 2},
                                      .offsets = {1, 0},
                                      .shape = {1, 2},
                                      .into = std::as_writable_bytes(std::span(row))}});
  check(of_part.ok() && row == std::vector<float>{3, 4}, "a part of it");
}

}  // namespace

void checkpoint_api(const std::string& folder) {
  const cairn::Value value = every_kind();
  look_into(value);
  for (const char* name : {"plain.pt", "packed.tar.gz", "packed.pt.zst"}) {
    const std::string path = folder + "/" + name;
    cairn::save(value, path, {.info = {.run_name = "mine"}});
    check(cairn::load(path) == value, name);
  }
  const std::string path = folder + "/plain.pt";
  const cairn::Checkpoint checkpoint = cairn::open_checkpoint(path);
  check(checkpoint.path() == path && checkpoint.info().run_name == "mine",
        "what it says of itself");
  const cairn::VerifyReport report = checkpoint.verify();
  check(report.ok() && report.has_manifest && report.records > 2, report.summary());
  look_into(cairn::load(checkpoint));
  read_into_memory(checkpoint);
  const cairn::Value without = cairn::load(path, {.ignore_keys = {"model/*.bias", "nested"}});
  check(without.find("nested") == nullptr && without.at("model").as_dict().size() == 1, "left out");

  cairn::save(value, folder + "/damaged.pt");
  damage(folder + "/damaged.pt");
  const cairn::VerifyReport bad = cairn::verify(folder + "/damaged.pt");
  check(bad.damage.size() == 1, bad.summary());
  check(bad.damage.at(0).tensors.at(0) == "model/fc.weight", bad.damage.at(0).describe());
  try {
    cairn::load(folder + "/damaged.pt");
    check(false, "a damaged file is loaded");
  } catch (const cairn::CorruptError& error) {
    check(cairn::exit_code_of(error) == cairn::kDamaged, error.what());
  }
  try {
    cairn::load(folder + "/nowhere.pt");
    check(false, "what is not there is loaded");
  } catch (const cairn::Error& error) {
    check(cairn::exit_code_of(error) == cairn::kNotFound, error.what());
  }

  const cairn::ConvertResult converted =
      cairn::convert(path, folder + "/weights.safetensors", {.weights_only = true});
  check(converted.format == "safetensors" && converted.tensors == 2, "converted");
  const cairn::Value weights = cairn::load(folder + "/weights.safetensors");
  check(weights.at("fc.weight") == value.at("model").at("fc.weight"), "the same weights");
}

void times_and_names(const std::string& folder) {
  using cairn::operator""_time;
  using cairn::Time;
  using cairn::TimeUnit;
  const Time max = "10ep";
  check(max * "0.5dur"_time == "5ep" && max.unit() == TimeUnit::kEpoch, "half of it");
  check(max.value() == 10 && max.to_string() == "10ep" && max - 3 == Time::epochs(7), "a time");
  check(Time(500, TimeUnit::kBatch) == Time::batches(500), "batches");
  check((Time("5ba") / Time("10ba")).fraction() == 0.5, "a fraction");
  check(Time("1h1m1s").value() == 3661 && cairn::name(TimeUnit::kSecond) == "sec", "seconds");

  cairn::Timestamp timestamp;
  for (int batch = 0; batch < 3; ++batch)
    timestamp = timestamp.to_next_batch(4, 0, cairn::TimeDelta{.seconds = 2});
  timestamp = timestamp.to_next_epoch();
  check(timestamp.epoch == 1 && timestamp.batch == 3 && timestamp.sample == 12, "it counts");
  check(timestamp.batch_in_epoch == 0 && timestamp.total_wct.seconds == 6, "of the epoch");
  check(timestamp < max && timestamp == "3ba" && timestamp >= "12sp", "it compares");
  check(timestamp.get(TimeUnit::kSample) == "12sp", "a counter");
  check(cairn::Timestamp::from_value(timestamp.state_dict()) == timestamp, "its state");

  const cairn::FormatVariables who = {{"run_name", std::string("mine")}, {"rank", std::int64_t{0}}};
  const cairn::NameFormat format = "ep{epoch:03d}-ba{batch}-rank{rank}.pt";
  const cairn::NameFormat of_rank = cairn::partial_format(format, who);
  check(of_rank.text() == "ep{epoch:03d}-ba{batch}-rank0.pt", of_rank.text());
  const std::string name = cairn::strict_format(format, who + cairn::time_variables(timestamp));
  check(name == "ep001-ba3-rank0.pt", name);
  const auto counters = cairn::parse_name(format, name, who);
  check(counters && counters->at(1) == std::pair<std::string, std::int64_t>("batch", 3), "parsed");

  const std::string path = folder + "/" + name;
  cairn::save(cairn::Dict{{"timestamp", timestamp.state_dict()}}, path,
              {.info = {.run_name = "mine", .timestamp = timestamp}});
  const auto found =
      cairn::find_latest(folder, {.filename = format, .run_name = "mine", .latest_filename = ""});
  check(found && found->path == path && found->timestamp == timestamp, "found by its name");
}

}  // namespace frozen
