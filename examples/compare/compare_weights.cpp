// compare_weights A B: says whether two .pt files hold the same tensors, bit for bit.
// Exit codes: 0 if they do; 1 if they do not; others as in command_line/run_main.h.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/exit_code.h"

#include "command_line/run_main.h"

namespace {

using cairn::ByteView;
using cairn::TensorView;

template <class T>
double largest_difference(ByteView a, ByteView b) {
  double largest = 0;
  for (std::size_t i = 0; i + sizeof(T) <= a.size(); i += sizeof(T)) {
    T x;
    T y;
    std::memcpy(&x, a.data() + i, sizeof(T));
    std::memcpy(&y, b.data() + i, sizeof(T));
    largest = std::max(largest, std::abs(static_cast<double>(x) - static_cast<double>(y)));
  }
  return largest;
}

std::size_t count_different(ByteView a, ByteView b, std::size_t item_size) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); i += item_size) {
    count += std::memcmp(a.data() + i, b.data() + i, item_size) != 0 ? 1 : 0;
  }
  return count;
}

// Describes the difference; "" if there is none.
std::string difference(const TensorView& a, const TensorView* b) {
  if (!b) return "only in the first file";
  if (a.dtype != b->dtype) return "dtypes differ";
  if (a.shape != b->shape) return "shapes differ";
  const cairn::SharedBytes x = a.contiguous_bytes();
  const cairn::SharedBytes y = b->contiguous_bytes();
  const std::size_t count = count_different(x.view, y.view, cairn::item_size(a.dtype));
  if (count == 0) return "";
  std::ostringstream text;
  text << "differs in " << count << " of " << a.numel();
  if (a.dtype == cairn::DType::kFloat32) {
    text << ", by up to " << largest_difference<float>(x.view, y.view);
  } else if (a.dtype == cairn::DType::kInt64) {
    text << ", by up to " << largest_difference<std::int64_t>(x.view, y.view);
  }
  return text.str();
}

std::string shape_text(const TensorView& tensor) {
  std::string text;
  for (const std::int64_t dim : tensor.shape)
    text += (text.empty() ? "" : "x") + std::to_string(dim);
  return text.empty() ? "scalar" : text;
}

void print_row(const std::string& name, const std::string& shape, const std::string& result) {
  std::cout << "  " << std::left << std::setw(32) << name << " " << std::setw(14) << shape << " "
            << result << "\n";
}

using Tensors = std::vector<std::pair<std::string, const TensorView*>>;

const TensorView* find(const Tensors& tensors, const std::string& path) {
  const auto it = std::ranges::find(tensors, path, &Tensors::value_type::first);
  return it == tensors.end() ? nullptr : it->second;
}

int compare(const std::string& file_a, const std::string& file_b) {
  const cairn::Value a = cairn::load(file_a);
  const cairn::Value b = cairn::load(file_b);
  const Tensors tensors_a = cairn::tensors_of(a);
  const Tensors tensors_b = cairn::tensors_of(b);
  std::size_t different = 0;
  std::int64_t numbers = 0;
  print_row("tensor", "shape", "");
  for (const auto& [path, tensor] : tensors_a) {
    const std::string result = difference(*tensor, find(tensors_b, path));
    print_row(path, shape_text(*tensor), result.empty() ? "equal" : result);
    different += result.empty() ? 0 : 1;
    numbers += tensor->numel();
  }
  for (const auto& [path, tensor] : tensors_b) {
    if (find(tensors_a, path)) continue;
    print_row(path, shape_text(*tensor), "only in the second file");
    ++different;
  }
  if (different == 0) {
    std::cout << "equal: all " << tensors_a.size() << " tensors (" << numbers
              << " numbers), bit for bit\n";
    return 0;
  }
  std::cout << "different: " << different << " tensors\n";
  return cairn::kNegativeAnswer;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Compares the tensors of two .pt files.", "compare_weights");
  std::string a;
  std::string b;
  app.add_option("A", a, "a .pt file")->required();
  app.add_option("B", b, "another")->required();
  return examples::run_main(app, argc, argv, [&] { return compare(a, b); });
}
