#include "train/state/random/mersenne_state.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <span>

#include "cairn/error.h"

namespace cairn {
namespace {

constexpr std::size_t kWords = 624;
using Words = std::array<std::uint32_t, kWords>;

// Knuth's linear recurrence, as numpy seeds.
Words words_of_number(std::uint32_t seed) {
  Words words;
  for (std::uint32_t i = 0; i < kWords; ++i) {
    words[i] = seed;
    seed = 1812433253U * (seed ^ (seed >> 30)) + i + 1;
  }
  return words;
}

// Matsumoto and Nishimura's initialization by an array, here of the one word `key`. Python seeds
// this way from an int below 2^32.
Words words_of_key(std::uint32_t key) {
  Words words = words_of_number(19650218U);
  std::size_t i = 1;
  const auto advance = [&] {
    if (++i == kWords) {
      words[0] = words[kWords - 1];
      i = 1;
    }
  };
  for (std::size_t k = 0; k < kWords; ++k, advance()) {
    const std::uint32_t previous = words[i - 1] ^ (words[i - 1] >> 30);
    words[i] = (words[i] ^ (previous * 1664525U)) + key;
  }
  for (std::size_t k = 0; k < kWords - 1; ++k, advance()) {
    const std::uint32_t previous = words[i - 1] ^ (words[i - 1] >> 30);
    words[i] = (words[i] ^ (previous * 1566083941U)) - static_cast<std::uint32_t>(i);
  }
  words[0] = 0x80000000U;
  return words;
}

List items_of(const Words& words) { return {words.begin(), words.end()}; }

const List& items(const Value& state, std::size_t size, const char* what) {
  if ((!state.is_tuple() && !state.is_list()) || state.as_items().size() != size) {
    throw MismatchError(std::string(what) + " is not a sequence of " + std::to_string(size));
  }
  return state.as_items();
}

void check_ints(const List& list, std::size_t begin, std::size_t end, std::int64_t largest) {
  const bool fine =
      std::all_of(list.begin() + static_cast<std::ptrdiff_t>(begin),
                  list.begin() + static_cast<std::ptrdiff_t>(end), [largest](const Value& item) {
                    return item.is_int() && item.as_int() >= 0 && item.as_int() <= largest;
                  });
  if (!fine) throw MismatchError("a word or position of a Mersenne twister is out of range");
}

constexpr std::int64_t kLargestWord = std::numeric_limits<std::uint32_t>::max();

List words_of_array(const NdArray& array) {
  if (array.dtype != "u4" || array.shape != Dims{kWords} ||
      array.bytes.view.size() != sizeof(Words)) {
    throw MismatchError("numpy's words are not 624 uint32");
  }
  Words words;
  std::memcpy(words.data(), array.bytes.view.data(), sizeof(Words));
  return items_of(words);
}

}  // namespace

Value python_random_state(std::uint32_t seed) {
  List words = items_of(words_of_key(seed));
  words.emplace_back(kWords);  // The position is at the end, so the next draw makes new words.
  return Tuple{{3, Tuple{std::move(words)}, None{}}};
}

Value numpy_random_state(std::uint32_t seed) {
  const auto words = std::make_shared<const Words>(words_of_number(seed));
  const NdArray array = {.dtype = "u4",
                         .shape = {kWords},
                         .bytes = {std::as_bytes(std::span(*words)), words},
                         .names = NumpyNames::kNone};
  return Tuple{{"MT19937", array, kWords, 0, 0.0}};
}

Value checked_python_state(const Value& state) {
  const List& parts = items(state, 3, "Python's random state");
  const List& words = items(parts[1], kWords + 1, "its internal state");
  check_ints(words, 0, kWords, kLargestWord);
  check_ints(words, kWords, kWords + 1, kWords);
  if (parts[0] != Value(3)) throw MismatchError("Python's random state is not of version 3");
  if (!parts[2].is_none() && parts[2].kind() != Kind::kFloat) {
    throw MismatchError("the cached Gaussian of Python's random state is not a float");
  }
  return Tuple{{parts[0], Tuple{words}, parts[2]}};
}

Value checked_numpy_state(const Value& state) {
  const List& parts = items(state, 5, "numpy's random state");
  if (parts[0] != Value("MT19937")) throw MismatchError("numpy's generator is not MT19937");
  const NdArray* array = parts[1].kind() == Kind::kNdArray ? &parts[1].as_ndarray() : nullptr;
  List words = array ? words_of_array(*array) : items(parts[1], kWords, "numpy's words");
  check_ints(words, 0, kWords, kLargestWord);
  check_ints(parts, 2, 3, kWords);
  check_ints(parts, 3, 4, 1);
  if (parts[4].kind() != Kind::kFloat && !parts[4].is_int()) {
    throw MismatchError("the cached Gaussian of numpy's state is not a float");
  }
  const Value kept = array != nullptr ? parts[1] : Value(Tuple{std::move(words)});
  return Tuple{{parts[0], kept, parts[2], parts[3], parts[4]}};
}

}  // namespace cairn
