// Pickles written by hand, for tests: opcodes as text.
#pragma once

#include <string>

#include "core/little_endian.h"
#include "testing/string_sink.h"
#include "tests/format/torch_zip.h"

namespace cairn::testing {

using namespace std::string_literals;

inline std::string repeated(const std::string& text, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) {
    out += text;
  }
  return out;
}

inline std::string int32(std::int32_t v) {
  std::string out = "J";
  append_little_endian(out, static_cast<std::uint32_t>(v));
  return out;
}

inline std::string int64(std::int64_t v) {
  std::string out = "\x8a\x08"s;
  append_little_endian(out, static_cast<std::uint64_t>(v));
  return out;
}

inline std::string unicode(const std::string& text) {
  std::string out = "X";
  append_little_endian(out, static_cast<std::uint32_t>(text.size()));
  return out + text;
}

inline std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}

// "\x80\x02 <body> ."
inline std::string pickle(const std::string& body) { return "\x80\x02"s + body + "."; }

// A storage as a persistent id. `numel` holds the opcodes of the number of elements.
inline std::string storage(const std::string& type, const std::string& key,
                           const std::string& numel) {
  return "(" + unicode("storage") + type + unicode(key) + unicode("cpu") + numel + "tQ";
}
inline std::string float_storage(const std::string& numel = "K\x04"s) {
  return storage(global("torch", "FloatStorage"), "0", numel);
}

// A call of _rebuild_tensor_v2. The argument holds the opcodes of storage, offset, size and stride.
inline std::string tensor(const std::string& storage_and_place) {
  return global("torch._utils", "_rebuild_tensor_v2") + "(" + storage_and_place + "\x89" +
         global("collections", "OrderedDict") + ")RtR";
}

// A torch.save file around a pickle, with one storage of four float32.
inline std::string torch_file_of(const std::string& data_pkl,
                                 const std::string& data0 = std::string(16, '\1')) {
  return torch_zip({{"data.pkl", data_pkl}, {"data/0", data0}, {"version", "3\n"}});
}

}  // namespace cairn::testing
