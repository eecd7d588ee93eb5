#include "testing/fibers.h"

#include <cxxabi.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace cairn::testing {
namespace {

constexpr std::size_t kStackBytes = std::size_t{512} << 10;

// The C++ runtime keeps the exceptions in flight per thread. This struct keeps them per fiber.
struct Exceptions {
  void* caught = nullptr;
  unsigned uncaught = 0;
};
void swap_exceptions(Exceptions& other) {
  auto* here = reinterpret_cast<Exceptions*>(abi::__cxa_get_globals());
  std::swap(*here, other);
}

struct Stack {
  std::unique_ptr<std::byte[]> bytes{new std::byte[kStackBytes]};
};

}  // namespace

struct Fibers::Fiber {
  std::function<void()> body;
  Stack stack;
  ucontext_t context = {};
  Exceptions exceptions;
  Time wakes;
  std::uint64_t turn = 0;
  bool has_ended = false;
  void* sanitizer = nullptr;
};

struct Fibers::Impl {
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Stack> spare;  // To make a stack costs more than to run a schedule.
  ucontext_t scheduler = {};
  Exceptions exceptions;
  Fiber* running = nullptr;
  std::uint64_t turns = 0;
  const void* main_stack = nullptr;
  std::size_t main_bytes = 0;
  void* sanitizer = nullptr;
};

Fibers::Fibers() : impl_(std::make_unique<Impl>()) {}
Fibers::~Fibers() = default;

void Fibers::enter(unsigned high, unsigned low) {
  auto* self = reinterpret_cast<Fibers*>((std::uintptr_t{high} << 32) | low);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &self->impl_->main_stack, &self->impl_->main_bytes);
#endif
  self->impl_->running->body();
  self->leave(/*is_end=*/true);
  std::abort();  // A fiber that has ended is never resumed.
}

void Fibers::spawn(std::function<void()> body) {
  auto fiber = std::make_unique<Fiber>(
      Fiber{.body = std::move(body), .stack = {nullptr}, .exceptions = {}, .wakes = now_});
  if (impl_->spare.empty()) {
    fiber->stack = Stack();
  } else {
    fiber->stack = std::move(impl_->spare.back());
    impl_->spare.pop_back();
  }
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = fiber->stack.bytes.get();
  fiber->context.uc_stack.ss_size = kStackBytes;
  fiber->context.uc_link = nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&fiber->context, reinterpret_cast<void (*)()>(&Fibers::enter), 2,
              static_cast<unsigned>(address >> 32), static_cast<unsigned>(address & 0xffffffffU));
#if defined(__SANITIZE_THREAD__)
  fiber->sanitizer = __tsan_create_fiber(0);
#endif
  fiber->turn = ++impl_->turns;
  impl_->fibers.push_back(std::move(fiber));
}

void Fibers::resume(Fiber& fiber) {
  impl_->running = &fiber;
  now_ = std::max(now_, fiber.wakes);
  swap_exceptions(impl_->exceptions);
  swap_exceptions(fiber.exceptions);
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, fiber.stack.bytes.get(), kStackBytes);
#endif
#if defined(__SANITIZE_THREAD__)
  impl_->sanitizer = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(fiber.sanitizer, 0);
#endif
  swapcontext(&impl_->scheduler, &fiber.context);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
  swap_exceptions(fiber.exceptions);
  swap_exceptions(impl_->exceptions);
  impl_->running = nullptr;
}

void Fibers::leave(bool is_end) {
  Fiber& fiber = *impl_->running;
  fiber.has_ended = is_end;
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(is_end ? nullptr : &fake, impl_->main_stack, impl_->main_bytes);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(impl_->sanitizer, 0);
#endif
  swapcontext(&fiber.context, &impl_->scheduler);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake, &impl_->main_stack, &impl_->main_bytes);
#endif
}

void Fibers::run(const std::function<bool()>& is_enough) {
  auto& fibers = impl_->fibers;
  while (!fibers.empty() && !(is_enough && is_enough())) {
    const auto next = std::ranges::min_element(
        fibers, {}, [](const auto& fiber) { return std::pair(fiber->wakes, fiber->turn); });
    resume(**next);
    if (!(*next)->has_ended) continue;
#if defined(__SANITIZE_THREAD__)
    __tsan_destroy_fiber((*next)->sanitizer);
#endif
    impl_->spare.push_back(std::move((*next)->stack));
    fibers.erase(next);
  }
}

void Fibers::pause(std::chrono::nanoseconds time) {
  Fiber& fiber = *impl_->running;
  fiber.wakes = now_ + std::max(time, std::chrono::nanoseconds(0));
  fiber.turn = ++impl_->turns;
  leave(/*is_end=*/false);
}

}  // namespace cairn::testing
