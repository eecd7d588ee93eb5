#include "cli/view/content/write_description.h"

#include <string>

#include "cli/view/content/describe_value.h"
#include "core/text/json.h"
#include "core/text/json_text.h"

namespace cairn::cli {
namespace {

std::string leaf_text(const Value& value) { return json_text(describe_value(value), -1); }

// Writes one item of a container per line, indented by its depth, which is at most a thousand.
class Writer {
 public:
  explicit Writer(std::ostream& out) : out_(out) {}

  void write(const Value& value) {
    if (value.is_dict()) {
      open(value);
      for (const auto& [key, item] : value.as_dict()) {
        next_item();
        out_ << "[" << leaf_text(key) << ", ";
        write(item);
        out_ << "]";
      }
      close();
    } else if (value.is_list() || value.is_tuple()) {
      open(value);
      for (const Value& item : value.as_items()) {
        next_item();
        write(item);
      }
      close();
    } else {
      out_ << leaf_text(value);
    }
  }

 private:
  void open(const Value& value) {
    out_ << R"({"type": ")" << value.type_name() << R"(", "items": [)";
    ++depth_;
    is_first_ = true;
  }
  void next_item() {
    out_ << (is_first_ ? "\n" : ",\n") << std::string(depth_, ' ');
    is_first_ = false;
  }
  void close() {
    --depth_;
    is_first_ = false;
    out_ << "]}";
  }

  std::ostream& out_;
  std::size_t depth_ = 0;
  bool is_first_ = true;
};

}  // namespace

void write_description(const Value& value, std::ostream& out) { Writer(out).write(value); }

}  // namespace cairn::cli
