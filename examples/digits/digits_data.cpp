// The data: "Optical Recognition of Handwritten Digits", E. Alpaydin and C. Kaynak (1998), UCI
// Machine Learning Repository, https://doi.org/10.24432/C50P49, licensed CC BY 4.0
// (https://creativecommons.org/licenses/by/4.0/). It is the repository's test file, re-encoded.
#include "digits_data.h"

#include <torch/torch.h>

#include <cstdint>
#include <iterator>

namespace digits {
namespace {

// A label, then 64 pixels row by row: 'a' is white, 'q' black. Written by make_digits_data.py.
constexpr const char* kScans[] = {
#include "digits_data.inc"
};
constexpr std::int64_t kNumTest = 360;

}  // namespace

Scans load_scans() {
  const auto n = static_cast<std::int64_t>(std::size(kScans));
  at::Tensor images = torch::empty({n, 1, 8, 8});
  at::Tensor labels = torch::empty({n}, torch::kInt64);
  float* pixel = images.data_ptr<float>();
  for (std::int64_t i = 0; i < n; ++i) {
    const char* scan = kScans[i];
    labels.data_ptr<std::int64_t>()[i] = *scan++ - '0';
    for (; *scan != '\0'; ++scan) {
      *pixel++ = static_cast<float>(*scan - 'a') / 16.0F;
    }
  }
  const std::int64_t end = n - kNumTest;
  return {cairn::tensor_dataset({images.slice(0, 0, end), labels.slice(0, 0, end)}),
          cairn::tensor_dataset({images.slice(0, end), labels.slice(0, end)})};
}

}  // namespace digits
