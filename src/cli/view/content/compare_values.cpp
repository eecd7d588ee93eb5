#include "cli/view/content/compare_values.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <map>
#include <string_view>

#include "cairn/dtensor.h"

#include "cli/view/content/describe_value.h"
#include "cli/view/content/value_text.h"
#include "io/threads/parallel.h"
#include "value/value_compare.h"
#include "value/value_path.h"

namespace cairn::cli {
namespace {

struct Leaf {
  std::string path;
  const Value* value;
  // The value's own tensor, a part of a sparse tensor, or the shard of a DTensor.
  const TensorView* tensor = nullptr;
};

// Finds all values except non-empty containers, in tree order.
class LeafFinder {
 public:
  std::vector<Leaf> find(const Value& root) {
    visit("", root);
    return std::move(leaves_);
  }

 private:
  // Value trees are at most a thousand levels deep, whatever file they come from.
  void visit(const std::string& path, const Value& value) {
    const std::string prefix = path.empty() ? "" : path + "/";
    if (value.is_dict() && !value.as_dict().empty()) {
      for (const auto& [key, child] : value.as_dict()) {
        const std::string own = prefix + key_text(key);
        if (!has_unique_text(key)) visit(own + " (key)", key);
        visit(own, child);
      }
    } else if ((value.is_list() || value.is_tuple()) && !value.as_items().empty()) {
      std::size_t i = 0;
      for (const Value& item : value.as_items()) {
        visit(prefix + std::to_string(i++), item);
      }
    } else {
      add(path, value);
    }
  }

  // The keys 1 and "1" have the same path. So the second leaf of a path gets another path:
  // "path#2".
  void add(const std::string& path, const Value& value) {
    const std::size_t before = seen_[path]++;
    const std::string own = before == 0 ? path : path + "#" + std::to_string(before + 1);
    if (const TensorView* local = local_tensor(value)) {
      leaves_.push_back({own + " (placement)", &value});
      leaves_.push_back({own, &value, local});
      return;
    }
    if (value.kind() != Kind::kSparse) {
      leaves_.push_back({own, &value, value.is_tensor() ? &value.as_tensor() : nullptr});
      return;
    }
    leaves_.push_back({own, &value});
    for (const auto& [name, part] : parts_of(value.as_sparse())) {
      leaves_.push_back({own + "/" + std::string(name), &value, part});
    }
  }

  std::vector<Leaf> leaves_;
  std::map<std::string, std::size_t> seen_;
};

// Removes addresses, since Python's default repr of an object contains the object's address in
// memory.
std::string without_addresses(std::string text) {
  constexpr std::string_view kBefore = " at 0x";
  for (std::size_t at = text.find(kBefore); at != std::string::npos; at = text.find(kBefore, at)) {
    at += kBefore.size();
    const std::size_t end = text.find_first_not_of("0123456789abcdef", at);
    text.erase(at, end == std::string::npos ? end : end - at);
  }
  return text;
}

bool is_empty_container(const Value& value) {
  if (value.is_dict()) return value.as_dict().empty();
  return (value.is_list() || value.is_tuple()) && value.as_items().empty();
}

// Compares only the form: the parts of a sparse tensor are separate leaves.
bool have_same_form(const SparseTensor& a, const SparseTensor& b) {
  return a.layout == b.layout && a.shape == b.shape;
}

bool are_same_floats(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

bool are_same_floats(const std::complex<double>& a, const std::complex<double>& b) {
  return are_same_floats(a.real(), b.real()) && are_same_floats(a.imag(), b.imag());
}

template <class Float>
bool are_near(const Float& a, const Float& b, const CompareOptions& options) {
  return are_same_floats(a, b) || (options.atol && std::abs(a - b) <= *options.atol);
}

bool are_same(const Value& a, const Value& b, const CompareOptions& options) {
  if (is_empty_container(a) && is_empty_container(b)) return a.is_dict() == b.is_dict();
  if (a.kind() != b.kind()) return false;
  if (a.is_str() && !options.wall_clock) {
    return without_addresses(a.as_str()) == without_addresses(b.as_str());
  }
  if (local_tensor(a) != nullptr && local_tensor(b) != nullptr) {
    return value_text(a) == value_text(b);
  }
  if (a.is_foreign()) return describe_value(a) == describe_value(b);
  // Items of a set may be foreign objects, or tensors, which never equal those of another file.
  if (a.kind() == Kind::kSet) return a == b || describe_value(a) == describe_value(b);
  if (a.kind() == Kind::kSparse) return have_same_form(a.as_sparse(), b.as_sparse());
  if (a.kind() == Kind::kFloat) return are_near(a.as_float(), b.as_float(), options);
  if (const auto* number = a.get_if<std::complex<double>>()) {
    return are_near(*number, *b.get_if<std::complex<double>>(), options);
  }
  if (const auto* scalar = a.get_if<NumpyScalar>()) {
    const Value x = scalar->number();
    const Value y = b.get_if<NumpyScalar>()->number();
    return x.kind() == y.kind() ? are_same(x, y, options) : x == y;
  }
  return a == b;
}

class Comparer {
 public:
  explicit Comparer(const CompareOptions& options) : options_(options) {}

  Differences compare(const Value& a, const Value& b) {
    const std::vector<Leaf> leaves_of_a = chosen_leaves(a);
    const std::vector<Leaf> leaves_of_b = chosen_leaves(b);
    const auto in_a = by_path(leaves_of_a);
    const auto in_b = by_path(leaves_of_b);
    for (const Leaf& leaf : leaves_of_a) {
      const auto other = in_b.find(leaf.path);
      if (other == in_b.end()) {
        differences_.only_in_a.push_back(leaf.path);
      } else {
        add_pair(leaf, *other->second);
      }
    }
    for (const Leaf& leaf : leaves_of_b) {
      if (!in_a.contains(leaf.path)) differences_.only_in_b.push_back(leaf.path);
    }
    compare_tensor_pairs();
    return std::move(differences_);
  }

 private:
  static std::map<std::string_view, const Leaf*> by_path(const std::vector<Leaf>& leaves) {
    std::map<std::string_view, const Leaf*> found;
    for (const Leaf& leaf : leaves) {
      found.emplace(leaf.path, &leaf);
    }
    return found;
  }

  std::vector<Leaf> chosen_leaves(const Value& root) {
    std::vector<Leaf> leaves = LeafFinder().find(root);
    std::uint64_t ignored = 0;
    std::erase_if(leaves, [&](const Leaf& leaf) {
      if (options_.tensors_only && leaf.tensor == nullptr) return true;
      if (options_.wall_clock || !differs_in_each_run(leaf.path)) return false;
      ++ignored;
      return true;
    });
    differences_.ignored = std::max(differences_.ignored, ignored);
    return leaves;
  }

  void add_pair(const Leaf& a, const Leaf& b) {
    if (a.tensor != nullptr && b.tensor != nullptr) {
      pairs_.push_back({.path = a.path, .a = a.tensor, .b = b.tensor});
    } else if (are_same(*a.value, *b.value, options_)) {
      ++differences_.same_values;
    } else {
      differences_.values.push_back({a.path, a.value, b.value});
    }
  }

  // Removes equal pairs from `pairs_`.
  void compare_tensor_pairs() {
    std::vector<char> is_same(pairs_.size(), 0);
    for_each_parallel(pairs_.size(), [&](std::size_t i) {
      DifferentTensor& pair = pairs_[i];
      if (pair.a->shape == pair.b->shape) {
        pair.distance = compare_tensors(*pair.a, *pair.b, options_.atol);
      }
      pair.has_other_scale = !equal_quantizers(pair.a->quantizer.get(), pair.b->quantizer.get());
      const bool has_same_dtype = pair.a->dtype == pair.b->dtype || options_.atol.has_value();
      is_same[i] =
          has_same_dtype && !pair.has_other_scale && pair.distance && pair.distance->differing == 0
              ? 1
              : 0;
      if (options_.on_progress) options_.on_progress(byte_size(*pair.a));
    });
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      if (is_same[i] != 0) {
        ++differences_.same_tensors;
      } else {
        differences_.tensors.push_back(std::move(pairs_[i]));
      }
    }
  }

  const CompareOptions& options_;
  Differences differences_;
  std::vector<DifferentTensor> pairs_;
};

}  // namespace

Differences compare_values(const Value& a, const Value& b, const CompareOptions& options) {
  return Comparer(options).compare(a, b);
}

bool differs_in_each_run(const std::string& path) {
  return path.ends_with("_wct") ||
         path.find("/all_saved_checkpoints_to_timestamp") != std::string::npos;
}

}  // namespace cairn::cli
