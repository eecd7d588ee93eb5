// Lets a rank write for long, or wait for a far store, without being taken for a rank that hangs.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "cairn/error.h"
#include "cairn/storage/object_store.h"

#include "checkpoint/plan/save_job.h"
#include "checkpoint/ranks/roll_call.h"
#include "io/threads/retry.h"
#include "storage/forwarding_store.h"

namespace cairn {

// A store for use within roll calls. A call to a store that may_be_far() takes as long as the
// server and the attempts of the store take. Meanwhile another thread gives signs of life
// (RollCall::with_signs_of_life()).
class LivingStore final : public ForwardingStore {
 public:
  // `under` must outlive this store.
  explicit LivingStore(ObjectStore& under) : ForwardingStore({std::shared_ptr<void>(), &under}) {}

  // From now on this rank is in `call`, until it joins the next call.
  void join(RollCall& call) { call_ = &call; }
  // The store for the protocols: this store, or `under` if `under` is not far away.
  ObjectStore& store() { return may_be_far() ? *this : *under_; }

  // Returns `retry` with RollCall::pause() for its pauses. So the attempts end when the other ranks
  // have given up. A store that is not far away gets only one attempt.
  RetryPolicy with_living_pauses(RetryPolicy retry) const {
    if (!may_be_far()) return {.attempts = 1};
    retry.pause = [this](std::chrono::milliseconds time) { call_->pause(time); };
    return retry;
  }
  // Calls far.check, if it is set, until it succeeds or its attempts are used up.
  void check(const FarWrite& far) const {
    if (!far.check) return;
    with_retries(with_living_pauses(far.retry), [&] { call_->with_signs_of_life(far.check); });
  }

  std::optional<ObjectInfo> stat(const std::string& name, bool follow) override {
    return with_signs_of_life([&] { return under_->stat(name, follow); });
  }
  std::shared_ptr<const ByteSource> open(const std::string& name) override {
    return with_signs_of_life([&]() -> std::shared_ptr<const ByteSource> {
      return std::make_shared<Source>(*this, under_->open(name));
    });
  }
  ListPage list(const std::string& folder, const std::string& page) override {
    return with_signs_of_life([&] { return under_->list(folder, page); });
  }
  std::unique_ptr<ObjectWrite> begin(const std::string& name,
                                     const BeginOptions& options) override {
    return with_signs_of_life([&]() -> std::unique_ptr<ObjectWrite> {
      return std::make_unique<Write>(*this, under_->begin(name, options));
    });
  }
  bool remove(const std::string& name) override {
    return with_signs_of_life([&] { return under_->remove(name); });
  }

 private:
  class Write final : public ObjectWrite {
   public:
    Write(const LivingStore& store, std::unique_ptr<ObjectWrite> under)
        : store_(store), under_(std::move(under)) {}
    void write(ByteView bytes) override {
      store_.call_->with_signs_of_life([&] { under_->write(bytes); });
    }
    void write_at(std::uint64_t offset, SharedBytes bytes) override {
      store_.call_->with_signs_of_life([&] { under_->write_at(offset, std::move(bytes)); });
    }
    std::size_t piece_bytes() const override { return under_->piece_bytes(); }
    void make_durable() override {
      store_.call_->with_signs_of_life([&] { under_->make_durable(); });
    }
    std::optional<ObjectInfo> committed() const override { return under_->committed(); }

   private:
    void publish() override {
      store_.call_->with_signs_of_life([&] { under_->commit(); });
    }

    const LivingStore& store_;
    const std::unique_ptr<ObjectWrite> under_;
  };

  class Source final : public ByteSource {
   public:
    Source(const LivingStore& store, std::shared_ptr<const ByteSource> under)
        : store_(store), under_(std::move(under)) {}
    std::uint64_t size() const override { return under_->size(); }
    const std::string& name() const override { return under_->name(); }
    void read(std::span<const Range> ranges) const override {
      store_.call_->with_signs_of_life([&] { under_->read(ranges); });
    }

   private:
    const LivingStore& store_;
    const std::shared_ptr<const ByteSource> under_;
  };

  template <class Act>
  auto with_signs_of_life(const Act& act) const -> decltype(act()) {
    std::optional<decltype(act())> result;
    call_->with_signs_of_life([&] { result.emplace(act()); });
    return *std::move(result);
  }

  RollCall* call_ = nullptr;
};

// Calls keep_alive() before each block.
class LivingWrite final : public ObjectWrite {
 public:
  LivingWrite(ObjectWrite& under, RollCall& call) : under_(under), call_(call) {}
  void write(ByteView bytes) override {
    call_.keep_alive();
    under_.write(bytes);
  }
  void write_at(std::uint64_t offset, SharedBytes bytes) override {
    call_.keep_alive();
    under_.write_at(offset, std::move(bytes));
  }
  std::size_t piece_bytes() const override { return under_.piece_bytes(); }

 private:
  void publish() override {
    throw UsageError("a part is committed by the attempt that it belongs to");
  }

  ObjectWrite& under_;
  RollCall& call_;
};

}  // namespace cairn
