// The gatherer never trusts what it keeps of a module from save to save. After any change of the
// module, the gathered state equals a new state of state_dict(), in each byte of its pickle.
#include "train/state/gather/state_gatherer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>
#include <random>

#include "cairn/error.h"

#include "count_allocations.h"
#include "encoded_bytes.h"

namespace {
std::atomic<std::size_t> allocations = 0;
}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace cairn {

std::size_t allocations_so_far() { return allocations; }

namespace {

// A module whose parameters can be removed and added under other names.
struct OpenModule : torch::nn::Module {
  torch::OrderedDict<std::string, at::Tensor>& table() { return parameters_; }
};

struct Net : OpenModule {
  Net() {
    for (int i = 0; i < 5; ++i) {
      register_parameter("p" + std::to_string(i), torch::rand({4, 3 + i}), false);
    }
    register_buffer("scale", torch::rand({2}));
    register_buffer("phase", torch::rand({3}, at::kComplexFloat));
    register_module("inner", inner);
    inner->register_parameter("w", torch::rand({6}), false);
  }
  at::Tensor& parameter(const std::string& name) { return table()[name]; }
  std::shared_ptr<OpenModule> inner = std::make_shared<OpenModule>();
};

class StateGathererTest : public ::testing::Test {
 protected:
  // Gathers before and after the change, and compares the second result with a newly made state.
  void expect_true_after(const std::function<void()>& change) {
    (void)gatherer_.gather(*net_);
    (void)gatherer_.gather(*net_);
    change();
    for (int i = 0; i < 2; ++i) {
      const Value gathered = gatherer_.gather(*net_);
      EXPECT_EQ(bytes_of(gathered), bytes_of(state_dict(*net_)));
    }
  }

  const torch::NoGradGuard no_grad_;
  std::shared_ptr<Net> net_ = std::make_shared<Net>();
  ModuleGatherer gatherer_;
};

TEST_F(StateGathererTest, WhatDidNotChangeIsTheSameValueAndCostsNoAllocation) {
  const Value first = gatherer_.gather(*net_);
  EXPECT_EQ(gatherer_.gather(*net_).identity(), first.identity());
  auto many = std::make_shared<OpenModule>();
  for (int i = 0; i < 1000; ++i) {
    many->register_parameter("a_name_that_is_not_short_" + std::to_string(i), torch::rand({2, 3}));
  }
  ModuleGatherer gatherer;
  const Value before = gatherer.gather(*many);
  const std::size_t begin = allocations;
  const Value after = gatherer.gather(*many);
  // These allocations are for the module; there is none per tensor.
  EXPECT_LT(allocations - begin, 30U);
  EXPECT_EQ(after.identity(), before.identity());
}

TEST_F(StateGathererTest, NumbersThatChangeInPlaceAreThoseOfNow) {
  expect_true_after([&] { net_->parameter("p1").fill_(7); });
  EXPECT_EQ(gatherer_.gather(*net_).identity(), gatherer_.gather(*net_).identity());
}

TEST_F(StateGathererTest, OtherMemoryOfTheSameShape) {
  expect_true_after([&] { net_->parameter("p1").set_data(torch::rand({4, 4})); });
  expect_true_after([&] { net_->parameter("p1").set_(torch::rand({4, 4})); });
  expect_true_after([&] {
    c10::StorageImpl* storage = net_->parameter("p2").storage().unsafeGetStorageImpl();
    const at::Tensor other = torch::rand({4, 5});
    storage->set_data_ptr(other.storage().unsafeGetStorageImpl()->set_data_ptr(at::DataPtr()));
  });
  expect_true_after([&] { net_->parameter("p3") = torch::rand({4, 6}); });
}

TEST_F(StateGathererTest, OtherShapesOverTheSameMemory) {
  expect_true_after([&] { net_->parameter("p1").t_(); });
  expect_true_after([&] { net_->parameter("p1").unsqueeze_(0); });
  expect_true_after([&] { net_->parameter("p2").resize_({2, 3}); });
  expect_true_after([&] { net_->parameter("p2").resize_({200, 30}).zero_(); });
  expect_true_after([&] {
    at::Tensor& tensor = net_->parameter("p3");
    tensor.set_(tensor.storage(), 2, {4, 4}, {4, 1});
  });
  expect_true_after([&] {
    at::Tensor& tensor = net_->parameter("p3");
    tensor.set_(tensor.storage(), 3, {4, 4}, {4, 1});
  });
  expect_true_after([&] {
    at::Tensor& tensor = net_->parameter("p3");
    tensor.set_(tensor.storage(), 3, {4, 4}, {1, 4});
  });
  EXPECT_EQ(gatherer_.gather(*net_).identity(), gatherer_.gather(*net_).identity());
}

TEST_F(StateGathererTest, OtherTypes) {
  expect_true_after([&] { net_->parameter("p1").set_data(net_->parameter("p1").to(at::kInt)); });
  expect_true_after([&] { net_->parameter("p1") = net_->parameter("p1").view(at::kFloat); });
  expect_true_after([&] { net_->to(at::kDouble); });
}

TEST_F(StateGathererTest, OtherNamesAndNumbersOfTensors) {
  expect_true_after([&] { net_->register_parameter("new", torch::rand({2}), false); });
  expect_true_after([&] { net_->register_buffer("also_new", torch::rand({2})); });
  expect_true_after([&] { net_->table().erase("p4"); });
  expect_true_after([&] {
    const at::Tensor tensor = net_->parameter("p3");
    net_->table().erase("p3");
    net_->table().insert("q3", tensor);
  });
  // The names have the same letters in sequence, but are divided at another place.
  expect_true_after([&] { net_->table().insert("innerw", torch::rand({6})); });
  expect_true_after([&] { net_->parameter("p0") = at::Tensor(); });
  expect_true_after([&] { net_->inner->table().erase("w"); });
  expect_true_after([&] { net_->inner->register_module("deep", std::make_shared<Net>()); });
  expect_true_after([&] { net_->replace_module("inner", std::make_shared<Net>()); });
  expect_true_after([&] { net_->unregister_module("inner"); });
  expect_true_after([&] { net_ = std::make_shared<Net>(); });
}

TEST_F(StateGathererTest, TwoTensorsBecomeOneAndOneBecomesTwo) {
  at::Tensor& first = net_->parameter("p0");
  expect_true_after([&] { net_->parameter("p1") = first; });
  // Another tensor over the same memory.
  expect_true_after([&] { net_->parameter("p1") = first.detach(); });
  expect_true_after([&] { net_->parameter("p2") = first.view({12}); });
  expect_true_after([&] { net_->parameter("p1") = first.clone(); });
  expect_true_after([&] { net_->inner->table()["w"] = net_->parameter("p3"); });
  expect_true_after([&] { std::swap(net_->parameter("p3"), net_->inner->table()["w"]); });
}

// The view of a conjugated tensor is of a copy of the tensor's values at that time.
TEST_F(StateGathererTest, AConjugatedTensorIsGatheredAnewEachTime) {
  at::Tensor phase = torch::rand({3}, at::kComplexFloat);
  net_->register_buffer("conjugated", phase.conj());
  expect_true_after([&] { phase.fill_(c10::complex<float>(1, 2)); });
  EXPECT_NE(gatherer_.gather(*net_).identity(), gatherer_.gather(*net_).identity());
}

TEST_F(StateGathererTest, WhatCannotBeSavedIsAnErrorEachTime) {
  (void)gatherer_.gather(*net_);
  net_->register_buffer("sparse", torch::eye(3).to_sparse());
  EXPECT_THROW((void)gatherer_.gather(*net_), UnsupportedError);
  EXPECT_THROW((void)gatherer_.gather(*net_), UnsupportedError);
}

TEST_F(StateGathererTest, AnotherThreadHasViewsOfItsOwn) {
  const Value here = gatherer_.gather(*net_);
  Value there;
  std::thread([&] { there = gatherer_.gather(*net_); }).join();
  EXPECT_EQ(bytes_of(there), bytes_of(here));
  EXPECT_NE(there.identity(), here.identity());
}

TEST_F(StateGathererTest, LivesNoLongerThanTheGatherer) {
  auto gatherer = std::make_unique<ModuleGatherer>();
  (void)gatherer->gather(*net_);
  const auto memory =
      c10::weak_intrusive_ptr<c10::StorageImpl>(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(
          net_->parameter("p0").storage().unsafeGetStorageImpl()));
  net_.reset();
  EXPECT_FALSE(memory.expired());
  gatherer.reset();
  EXPECT_TRUE(memory.expired());
}

// Random changes in random order.
TEST_F(StateGathererTest, AfterAnyChangesItIsWhatThereIs) {
  std::mt19937 random(17);  // NOLINT
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const auto any = [&]() -> at::Tensor& {
    auto& table = net_->table();
    return table[static_cast<std::size_t>(pick(static_cast<int>(table.size())))].value();
  };
  for (int i = 0; i < 300; ++i) {
    switch (pick(9)) {
      case 0:
        any() = torch::rand({pick(3), 2});
        break;
      case 1:
        any().resize_({pick(4), 3}).fill_(i);
        break;
      case 2:
        if (at::Tensor& tensor = any(); tensor.dim() == 2) tensor.t_();
        break;
      case 3:
        any() = any();
        break;
      case 4:
        any() = torch::alias(any());
        break;
      case 5:
        any().set_data(torch::rand({2, 2}));
        break;
      case 6:
        net_->register_parameter("n" + std::to_string(i), torch::rand({pick(5)}), false);
        break;
      case 7:
        if (net_->table().size() > 3) net_->table().erase(net_->table()[0].key());
        break;
      default:
        any().fill_(i);
    }
    const Value gathered = gatherer_.gather(*net_);
    ASSERT_EQ(bytes_of(gathered), bytes_of(state_dict(*net_))) << "after change " << i;
  }
}

}  // namespace
}  // namespace cairn
