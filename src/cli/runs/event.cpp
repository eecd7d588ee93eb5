#include "cli/runs/event.h"

#include "core/protobuf_reader.h"
#include "core/text/json.h"
#include "core/text/json_text.h"

// The numbers of the fields are those of TensorFlow's event.proto, summary.proto, tensor.proto and
// tensor_shape.proto, of TensorBoard's hparams/plugin_data.proto, and of Google's struct.proto.

namespace cairn::cli {
namespace {

constexpr int kSessionStart = 1;    // SessionLog.START
constexpr std::int64_t kFloat = 1;  // DT_FLOAT
constexpr std::int64_t kDouble = 2;
constexpr std::int64_t kString = 7;

// Calls `look` for each field. Returns whether the message is whole and `look` was content.
bool for_each_field(std::string_view message, const auto& look) {
  ProtoReader reader(message);
  while (const auto field = reader.next()) {
    if (!look(*field)) return false;
  }
  return reader.is_whole();
}

// --- Tensors ------------------------------------------------------------------------------------

struct TensorMessage {
  std::int64_t dtype = 0;
  bool is_one = true;  // one element, whatever the number of dimensions
  std::string_view content = {};
  std::optional<double> number = std::nullopt;
  std::vector<std::string_view> texts = {};
};

bool read_shape(std::string_view message, TensorMessage& tensor) {
  return for_each_field(message, [&](const ProtoField& field) {
    if (!field.is_text(2)) return true;
    std::int64_t size = 0;
    const bool is_whole = for_each_field(field.text(), [&](const ProtoField& dim) {
      if (dim.is_integer(1)) size = dim.integer();
      return true;
    });
    if (size != 1) tensor.is_one = false;
    return is_whole;
  });
}

template <class Number, class Bits>
std::optional<double> only_number(std::string_view bytes) {
  if (bytes.size() != sizeof(Number)) return std::nullopt;
  return std::bit_cast<Number>(load_little_endian<Bits>(as_bytes(bytes).data()));
}

std::optional<double> only_float(std::string_view bytes) {
  return only_number<float, std::uint32_t>(bytes);
}
std::optional<double> only_double(std::string_view bytes) {
  return only_number<double, std::uint64_t>(bytes);
}

bool read_tensor(std::string_view message, TensorMessage& tensor) {
  return for_each_field(message, [&](const ProtoField& field) {
    if (field.is_integer(1)) tensor.dtype = field.integer();
    if (field.is_text(2)) return read_shape(field.text(), tensor);
    if (field.is_text(4)) tensor.content = field.text();
    // Repeated numbers are packed or not.
    if (field.is_text(5)) tensor.number = only_float(field.text());
    if (field.is_float(5)) tensor.number = double{field.as_float()};
    if (field.is_text(6)) tensor.number = only_double(field.text());
    if (field.is_double(6)) tensor.number = field.as_double();
    if (field.is_text(8)) tensor.texts.push_back(field.text());
    return true;
  });
}

std::optional<double> scalar_in(const TensorMessage& tensor) {
  if (!tensor.is_one) return std::nullopt;
  if (tensor.dtype == kFloat && !tensor.content.empty()) return only_float(tensor.content);
  if (tensor.dtype == kDouble && !tensor.content.empty()) return only_double(tensor.content);
  return tensor.dtype == kFloat || tensor.dtype == kDouble ? tensor.number : std::nullopt;
}

// --- Hyperparameters ----------------------------------------------------------------------------

// google.protobuf.Value, without lists and structures.
bool read_value(std::string_view message, Json& value) {
  return for_each_field(message, [&](const ProtoField& field) {
    if (field.is_double(2)) value = field.as_double();
    if (field.is_text(3)) value = std::string(field.text());
    if (field.is_integer(4)) value = field.integer() != 0;
    return true;
  });
}

bool read_hyperparameter(std::string_view message, LoggedEvent& event) {
  std::string name;
  Json value;
  const bool is_whole = for_each_field(message, [&](const ProtoField& field) {
    if (field.is_text(1)) name = field.text();
    return !field.is_text(2) || read_value(field.text(), value);
  });
  if (is_whole) event.hyperparameters.emplace_back(name, json_text(value, -1));
  return is_whole;
}

// HParamsPluginData, of which SessionStartInfo has the values of this run.
bool read_hyperparameters(std::string_view message, LoggedEvent& event) {
  return for_each_field(message, [&](const ProtoField& field) {
    if (!field.is_text(3)) return true;
    return for_each_field(field.text(), [&](const ProtoField& info) {
      return !info.is_text(1) || read_hyperparameter(info.text(), event);
    });
  });
}

// --- Summaries ----------------------------------------------------------------------------------

struct Plugin {
  std::string_view name = {};
  std::string_view content = {};
};

bool read_metadata(std::string_view message, Plugin& plugin) {
  return for_each_field(message, [&](const ProtoField& field) {
    if (!field.is_text(1)) return true;
    return for_each_field(field.text(), [&](const ProtoField& data) {
      if (data.is_text(1)) plugin.name = data.text();
      if (data.is_text(2)) plugin.content = data.text();
      return true;
    });
  });
}

// PyTorch's and cairn's name for the text NAME.
std::string_view name_of_text(std::string_view tag) {
  constexpr std::string_view kEnding = "/text_summary";
  if (tag.ends_with(kEnding)) tag.remove_suffix(kEnding.size());
  return tag;
}

// TensorFlow 2 names the plugin only in the first event of a tag, so a tensor without a name is
// what its type and size say.
void add_tensor(LoggedEvent& event, std::string_view tag, const Plugin& plugin,
                const TensorMessage& tensor) {
  if ((plugin.name.empty() || plugin.name == "scalars")) {
    if (const auto number = scalar_in(tensor)) event.scalars.emplace_back(tag, *number);
  }
  if ((plugin.name.empty() || plugin.name == "text") && tensor.dtype == kString) {
    for (const std::string_view text : tensor.texts)
      event.texts.emplace_back(name_of_text(tag), text);
  }
}

bool read_summary_value(std::string_view message, LoggedEvent& event) {
  std::string_view tag;
  std::optional<double> number;
  std::optional<TensorMessage> tensor;
  Plugin plugin;
  const bool is_whole = for_each_field(message, [&](const ProtoField& field) {
    if (field.is_text(1)) tag = field.text();
    if (field.is_float(2)) number = double{field.as_float()};
    if (field.is_text(8)) return read_tensor(field.text(), tensor.emplace());
    return !field.is_text(9) || read_metadata(field.text(), plugin);
  });
  if (!is_whole) return false;
  if (plugin.name == "hparams") return read_hyperparameters(plugin.content, event);
  if (number) event.scalars.emplace_back(tag, *number);
  if (tensor) add_tensor(event, tag, plugin, *tensor);
  return true;
}

bool read_session(std::string_view message, LoggedEvent& event) {
  return for_each_field(message, [&](const ProtoField& field) {
    if (field.is_integer(1)) event.is_start = field.integer() == kSessionStart;
    return true;
  });
}

}  // namespace

std::optional<LoggedEvent> event_of(std::string_view message) {
  LoggedEvent event;
  const bool is_whole = for_each_field(message, [&](const ProtoField& field) {
    if (field.is_double(1)) event.seconds = field.as_double();
    if (field.is_integer(2)) event.step = field.integer();
    if (field.is_text(7)) return read_session(field.text(), event);
    if (!field.is_text(5)) return true;
    return for_each_field(field.text(), [&](const ProtoField& value) {
      return !value.is_text(1) || read_summary_value(value.text(), event);
    });
  });
  return is_whole ? std::optional(std::move(event)) : std::nullopt;
}

}  // namespace cairn::cli
