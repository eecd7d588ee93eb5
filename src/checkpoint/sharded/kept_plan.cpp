#include "checkpoint/sharded/kept_plan.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "cairn/error.h"

#include "checkpoint/sharded/packed.h"

namespace cairn::sharded {
namespace {

constexpr std::string_view kQuestionMark = "CAsk__1\n";
constexpr std::string_view kAnswerMark = "CHas__1\n";

// Collects the answers of all ranks, and keeps the descriptions that have changed.
class Answers {
 public:
  // `before`: the kept plan; null if none is kept for this number of ranks.
  Answers(std::shared_ptr<const GlobalPlan> before, std::uint32_t ranks)
      : before_(std::move(before)), parts_(ranks) {}

  void add_names(std::string_view names) {
    if (std::ranges::find(names_, names) == names_.end()) names_.emplace_back(names);
  }
  void add_parts(std::uint32_t rank, std::string_view parts) {
    if (before_ != nullptr && parts == before_->text_of(rank)) return;
    parts_[rank] = parts;
    is_new_ = true;
  }
  void add(std::uint32_t rank, std::string_view text) {
    PackedReader in(text, "what a rank has of the state");
    in.expect_mark(kAnswerMark);
    if (in.number(1) == 1) {
      expect_digest(rank, in.text());
    } else {
      if (const std::string_view names = in.text(); !names.empty()) add_names(names);
      add_parts(rank, in.text());
    }
    in.expect_end();
  }

  const std::vector<std::string>& names() const { return names_; }
  std::shared_ptr<const GlobalPlan> plan() {
    if (before_ != nullptr && !is_new_) return before_;
    std::vector<std::string> all;
    for (std::uint32_t rank = 0; rank < parts_.size(); ++rank) {
      auto& parts = parts_[rank];
      all.push_back(parts ? std::move(*parts) : before_->text_of(rank));
    }
    before_.reset();
    return std::make_shared<const GlobalPlan>(names_, std::move(all));
  }

 private:
  void expect_digest(std::uint32_t rank, std::string_view digest) const {
    if (before_ != nullptr && digest == digest_of_text(before_->text_of(rank))) return;
    throw CorruptError(
        "rank " + std::to_string(rank) +
        " says that its state is unchanged, but the kept description has another digest");
  }

  std::shared_ptr<const GlobalPlan> before_;
  std::vector<std::string> names_;
  std::vector<std::optional<std::string>> parts_;  // nullopt: the kept description
  bool is_new_ = false;
};

// Returns the names that some rank uses.
std::vector<std::string> names_in_use(const GlobalPlan& plan, std::vector<std::string> names) {
  std::set<std::string_view> digests;
  for (std::uint32_t rank = 0; rank < plan.world_size(); ++rank) {
    digests.insert(RankParts::parse(plan.text_of(rank)).names_digest);
  }
  std::erase_if(names,
                [&](const std::string& text) { return !digests.contains(digest_of_text(text)); });
  return names;
}

}  // namespace

std::string KeptPlan::ask(const std::string& save, const Description& own) {
  asked_ = save;
  PackedWriter out;
  out.plain(kQuestionMark);
  out.text(save);
  out.text(kept_.save);
  out.text(digest_of_text(own.names));
  return out.take();
}

std::string KeptPlan::answer(std::string_view asked, const Description& own) {
  PackedReader in(asked, "what rank 0 asks");
  in.expect_mark(kQuestionMark);
  const std::string save(in.text());
  const std::string kept(in.text());
  const std::string_view names_of_rank_0 = in.text();
  in.expect_end();
  const LastAnswer before = std::exchange(last_answer_, {save, digest_of_text(own.parts)});
  PackedWriter out;
  out.plain(kAnswerMark);
  if (!kept.empty() && before.save == kept && before.digest == last_answer_.digest) {
    out.number(1);
    out.text(last_answer_.digest);
    return out.take();
  }
  out.number(0);
  out.text(digest_of_text(own.names) == names_of_rank_0 ? "" : own.names);
  out.text(own.parts);
  return out.take();
}

std::shared_ptr<const GlobalPlan> KeptPlan::plan(const Description& own, std::uint32_t ranks,
                                                 const AnswerOf& answer_of) {
  Kept before = std::exchange(kept_, {});
  if (before.plan != nullptr && before.plan->world_size() != ranks) before = {};
  Answers answers(std::move(before.plan), ranks);
  for (const std::string& names : before.names) {
    answers.add_names(names);
  }
  answers.add_names(own.names);
  answers.add_parts(0, own.parts);
  for (std::uint32_t rank = 1; rank < ranks; ++rank) {
    answers.add(rank, answer_of(rank));
  }
  auto plan = answers.plan();
  Kept now{.save = asked_, .names = names_in_use(*plan, answers.names()), .plan = plan};
  std::uint64_t bytes = plan->memory();
  for (const std::string& names : now.names) {
    bytes += names.size();
  }
  if (bytes <= most_kept_) kept_ = std::move(now);
  return plan;
}

}  // namespace cairn::sharded
