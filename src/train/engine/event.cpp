#include "cairn/train/event.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "train/engine/event_table.h"

namespace cairn {
namespace {

// In the order of Event. To add an event, add its enumerator, its method of Callback, and its row
// here. A mismatch does not compile. tools/tidy.py finds a method that has no row.
constexpr auto kEvents = [] {
  using enum Event;
  using enum EventNeeds;
  return std::to_array<EventRow>({
      {kInit, "init", &Callback::init, kNothing},
      {kBeforeLoad, "before_load", &Callback::before_load, kNothing},
      {kAfterLoad, "after_load", &Callback::after_load, kNothing},
      {kFitStart, "fit_start", &Callback::fit_start, kTraining},
      {kIterationStart, "iteration_start", &Callback::iteration_start, kTraining},
      {kEpochStart, "epoch_start", &Callback::epoch_start, kTraining},
      {kBeforeDataloader, "before_dataloader", &Callback::before_dataloader, kTraining},
      {kAfterDataloader, "after_dataloader", &Callback::after_dataloader, kTraining},
      {kBatchStart, "batch_start", &Callback::batch_start, kTraining},
      {kBeforeTrainBatch, "before_train_batch", &Callback::before_train_batch, kTraining},
      {kBeforeForward, "before_forward", &Callback::before_forward, kTraining},
      {kAfterForward, "after_forward", &Callback::after_forward, kTraining},
      {kBeforeLoss, "before_loss", &Callback::before_loss, kTraining},
      {kAfterLoss, "after_loss", &Callback::after_loss, kTraining},
      {kBeforeBackward, "before_backward", &Callback::before_backward, kTraining},
      {kAfterBackward, "after_backward", &Callback::after_backward, kTraining},
      {kAfterTrainBatch, "after_train_batch", &Callback::after_train_batch, kTraining},
      {kBatchEnd, "batch_end", &Callback::batch_end, kTraining},
      {kBatchCheckpoint, "batch_checkpoint", &Callback::batch_checkpoint, kTraining},
      {kEpochEnd, "epoch_end", &Callback::epoch_end, kTraining},
      {kEpochCheckpoint, "epoch_checkpoint", &Callback::epoch_checkpoint, kTraining},
      {kIterationEnd, "iteration_end", &Callback::iteration_end, kTraining},
      {kIterationCheckpoint, "iteration_checkpoint", &Callback::iteration_checkpoint, kTraining},
      {kFitEnd, "fit_end", &Callback::fit_end, kTraining},
      {kEvalBeforeAll, "eval_before_all", &Callback::eval_before_all, kLoader},
      {kEvalStart, "eval_start", &Callback::eval_start, kLoader},
      {kEvalBatchStart, "eval_batch_start", &Callback::eval_batch_start, kLoader},
      {kEvalBeforeForward, "eval_before_forward", &Callback::eval_before_forward, kLoader},
      {kEvalAfterForward, "eval_after_forward", &Callback::eval_after_forward, kLoader},
      {kEvalBatchEnd, "eval_batch_end", &Callback::eval_batch_end, kLoader},
      {kEvalEnd, "eval_end", &Callback::eval_end, kLoader},
      {kEvalAfterAll, "eval_after_all", &Callback::eval_after_all, kLoader},
      {kEvalStandaloneStart, "eval_standalone_start", &Callback::eval_standalone_start, kNothing},
      {kEvalStandaloneEnd, "eval_standalone_end", &Callback::eval_standalone_end, kNothing},
      {kPredictStart, "predict_start", &Callback::predict_start, kLoader},
      {kPredictBatchStart, "predict_batch_start", &Callback::predict_batch_start, kLoader},
      {kPredictBeforeForward, "predict_before_forward", &Callback::predict_before_forward, kLoader},
      {kPredictAfterForward, "predict_after_forward", &Callback::predict_after_forward, kLoader},
      {kPredictBatchEnd, "predict_batch_end", &Callback::predict_batch_end, kLoader},
      {kPredictEnd, "predict_end", &Callback::predict_end, kLoader},
  });
}();

// The compiler's spelling of a constant, without qualifiers: "kInit", "batch_end".
template <auto kConstant>
consteval std::string_view spelling() {
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("kConstant = ") + std::string_view("kConstant = ").size());
  text = text.substr(0, text.find_first_of(";]"));
  return text.substr(text.rfind(':') + 1);
}

// Whether an enumerator matches a name: kBatchEnd matches "batch_end".
consteval bool is_enumerator_of(std::string_view enumerator, std::string_view name) {
  if (enumerator.empty() || enumerator.front() != 'k') return false;
  enumerator.remove_prefix(1);
  bool starts_word = true;
  for (const char c : name) {
    if (c == '_') {
      starts_word = true;
      continue;
    }
    const char wanted = starts_word ? static_cast<char>(c - 'a' + 'A') : c;
    if (enumerator.empty() || enumerator.front() != wanted) return false;
    enumerator.remove_prefix(1);
    starts_word = false;
  }
  return enumerator.empty();
}

template <std::size_t kRow>
consteval bool agrees() {
  constexpr EventRow kThis = kEvents[kRow];
  return static_cast<std::size_t>(kThis.event) == kRow &&
         is_enumerator_of(spelling<kThis.event>(), kThis.name) &&
         spelling<kThis.method>() == kThis.name;
}

template <std::size_t... kRows>
consteval bool all_agree(std::index_sequence<kRows...> /*rows*/) {
  return (agrees<kRows>() && ...);
}

static_assert(kEvents.size() == kNumEvents && all_agree(std::make_index_sequence<kNumEvents>()),
              "kEvents has a row for each Event, in the order of Event, and the enumerator, the "
              "name and the method of a row are the same words");
static_assert(!spelling<static_cast<Event>(kNumEvents)>().starts_with('k'),
              "kNumEvents counts every enumerator of Event");

bool equal_in_any_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

}  // namespace

const EventRow& event_row(Event event) { return kEvents[static_cast<std::size_t>(event)]; }

std::string_view name(Event event) { return event_row(event).name; }

std::optional<Event> find_event(std::string_view text) {
  for (const EventRow& row : kEvents) {
    if (equal_in_any_case(text, row.name)) return row.event;
  }
  return std::nullopt;
}

}  // namespace cairn
