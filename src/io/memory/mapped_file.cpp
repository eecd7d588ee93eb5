#include "io/memory/mapped_file.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cairn/error.h"

#include "io/file_error.h"

namespace cairn {
namespace {

// Up to this size, a file can be mapped unless no addresses are left.
constexpr std::size_t kLargestForSure = std::size_t{1} << 40;

// A fault maps up to a whole large folio. So the first fault in a piece maps again the pages before
// the piece, which were released. (Since Linux 6.18. Older kernels map at most 64 KiB.)
constexpr std::size_t kLargestFolio = std::size_t{2} << 20;

// `mapping` is where the file's bytes start. Rounds down at both ends. In a stream, the page that
// holds the start was used up by the previous piece, and the page that holds the end is about to be
// used.
void release_pages(ByteView bytes, const void* mapping) {
  static const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  // A mapping begins with a page.
  auto* const first = static_cast<std::byte*>(const_cast<void*>(mapping));
  const auto start = static_cast<std::size_t>(bytes.data() - first);
  const std::size_t begin = (start - std::min(start, kLargestFolio)) / page * page;
  const std::size_t end = (start + bytes.size()) / page * page;
  // This is a hint: if it fails, the memory is used for longer.
  if (end > begin) madvise(first + begin, end - begin, MADV_DONTNEED);
}

// One mapping. The handler reads it while other threads add and end mappings. So `begin` is 0 while
// the object changes, and objects are used again, never deleted. A mapping ends in destructors,
// which must not allocate. So the objects themselves form the list of free ones and the list of
// those that ended with an unreported failure.
struct Mapping {
  std::atomic<std::uintptr_t> begin = 0;
  std::atomic<std::uintptr_t> end = 0;
  std::atomic<std::uintptr_t> unreadable_from = 0;  // an address; 0: all was readable
  Mapping* next = nullptr;
  // The members below are accessed only under the mutex of Mappings.
  // next_ended: the next one in the list of free mappings, or of those with an unreported failure.
  Mapping* next_ended = nullptr;
  std::string name = {};
  bool is_scratch = false;
  std::function<void()> check_unchanged = nullptr;  // null for a scratch file, and after the end
  std::exception_ptr failure = nullptr;             // set when the mapping ended
  bool holds(std::uintptr_t address) const {
    const std::uintptr_t first = begin;
    return first != 0 && address >= first && address < end && first == begin;
  }
};

class Mappings {
 public:
  Mapping* add(const void* start, std::size_t size, const std::string& name,
               std::function<void()> check_unchanged) {
    const std::lock_guard lock(mutex_);
    if (free_ == nullptr) grow();
    free_->name = name;  // before it is taken, because this may throw
    Mapping* const mapping = std::exchange(free_, free_->next_ended);
    mapping->is_scratch = check_unchanged == nullptr;
    mapping->check_unchanged = std::move(check_unchanged);
    mapping->unreadable_from = 0;
    mapping->end = reinterpret_cast<std::uintptr_t>(start) + size;
    mapping->begin = reinterpret_cast<std::uintptr_t>(start);
    return mapping;
  }

  void remove(Mapping* mapping) noexcept {
    const std::lock_guard lock(mutex_);
    if (is_guarded_) mapping->failure = failure_of(*mapping);
    mapping->begin = 0;
    mapping->check_unchanged = nullptr;
    Mapping*& list = mapping->failure != nullptr ? unreported_ : free_;
    mapping->next_ended = std::exchange(list, mapping);
  }

  void check(const std::string& path, bool only_pages = false) {
    const std::lock_guard lock(mutex_);
    for (const Mapping* mapping = newest_; mapping != nullptr; mapping = mapping->next) {
      if (mapping->begin == 0 || !concerns(*mapping, path)) continue;
      if (only_pages && mapping->unreadable_from == 0) continue;
      if (const auto failure = failure_of(*mapping)) std::rethrow_exception(failure);
    }
    // check() for all mappings ignores a file that was written to after its last reader ended.
    const bool only_zeros = only_pages || path.empty();
    for (Mapping** link = &unreported_; *link != nullptr; link = &(*link)->next_ended) {
      const bool had_zeros = (*link)->unreadable_from != 0;
      if ((only_zeros && !had_zeros) || !concerns(**link, path)) continue;
      std::rethrow_exception(free_again(*link));
    }
  }

  void set_guarded(bool is_guarded) {
    const std::lock_guard lock(mutex_);
    is_guarded_ = is_guarded;
    while (!is_guarded && unreported_ != nullptr)
      free_again(unreported_);
  }

  // For the signal handler: does not wait and does not allocate.
  Mapping* find(std::uintptr_t address) const {
    Mapping* mapping = newest_;
    while (mapping != nullptr && !mapping->holds(address))
      mapping = mapping->next;
    return mapping;
  }

 private:
  // Frees the first mapping of a list of ended ones, and returns its failure.
  std::exception_ptr free_again(Mapping*& first) {
    Mapping* const mapping = std::exchange(first, first->next_ended);
    mapping->next_ended = std::exchange(free_, mapping);
    return std::exchange(mapping->failure, nullptr);
  }

  // The exception that check() throws for the mapping; null: none.
  static std::exception_ptr failure_of(const Mapping& mapping) {
    try {
      if (const std::uintptr_t from = mapping.unreadable_from; from != 0) {
        throw_read_error(EIO, "cannot read " + mapping.name + " at byte " +
                                  std::to_string(from - mapping.begin));
      }
      if (mapping.check_unchanged) mapping.check_unchanged();
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }

  static bool concerns(const Mapping& mapping, const std::string& path) {
    const std::string& name = mapping.name;
    return path.empty() || mapping.is_scratch || name == path || name.starts_with(path + "/");
  }

  void grow() {
    all_.push_back(std::make_unique<Mapping>());
    all_.back()->next = newest_;
    newest_ = free_ = all_.back().get();
  }

  std::mutex mutex_;
  std::atomic<Mapping*> newest_ = nullptr;
  std::vector<std::unique_ptr<Mapping>> all_;
  Mapping* free_ = nullptr;
  // Mappings that ended while a GuardedReads lived, with a failure that was not reported yet.
  Mapping* unreported_ = nullptr;
  bool is_guarded_ = false;
};

// Never destroyed: mappings may outlive every static object.
Mappings& mappings() {
  static auto* const all = new Mappings;
  return *all;
}

std::atomic<int> guards = 0;
thread_local int guards_here = 0;
struct sigaction handler_before = {};

// Step 3. Makes only calls that a signal handler may make.
bool put_zeros(void* place) {
  if (guards == 0) return false;
  const auto address = reinterpret_cast<std::uintptr_t>(place);
  Mapping* const mapping = mappings().find(address);
  if (mapping == nullptr) return false;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t from = address / page * page;
  auto* const first_page = static_cast<std::byte*>(place) - (address - from);
  const std::uintptr_t end = mapping->end;
  if (mmap(first_page, end - from, PROT_READ,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED) {
    return false;
  }
  std::uintptr_t first = mapping->unreadable_from;
  while ((first == 0 || from < first) &&
         !mapping->unreadable_from.compare_exchange_weak(first, from)) {
  }
  return true;
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  if (put_zeros(info->si_addr)) {
    errno = error;
  } else if ((handler_before.sa_flags & SA_SIGINFO) != 0) {
    handler_before.sa_sigaction(signal, info, context);
  } else if (handler_before.sa_handler != SIG_DFL && handler_before.sa_handler != SIG_IGN) {
    handler_before.sa_handler(signal);
  } else {
    sigaction(signal, &handler_before,
              nullptr);  // the instruction fails again, and ends the process
  }
}

void handle_bus_errors() {
  static std::once_flag once;
  std::call_once(once, [] {
    mappings();
    struct sigaction action = {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &handler_before);
  });
}

struct Unmap {
  std::size_t size = 0;
  Mapping* mapping = nullptr;

  void operator()(void* start) const noexcept {
    if (mapping != nullptr) mappings().remove(mapping);
    munmap(start, size);
  }
};

struct HowToMap {
  int protection;
  int flags;
};

void* map_file(int fd, std::size_t size, const std::string& name, HowToMap how) {
  void* const start = mmap(nullptr, size, how.protection, how.flags, fd, 0);
  if (start != MAP_FAILED) return start;
  const int error = errno;
  // A mapping takes addresses, not memory. So for such sizes ENOMEM is the fault of the file.
  if (error == ENOMEM && size > kLargestForSure) {
    throw UnsupportedError(name + " is larger than this process can map");
  }
  throw_storage_error(error, "cannot map " + name);
}

}  // namespace

SharedBytes map_descriptor(int fd, std::size_t size, const std::string& name,
                           std::function<void()> check_unchanged) {
  if (size == 0) return {};
  void* start = map_file(fd, size, name, {PROT_READ, MAP_SHARED});
  std::unique_ptr<void, Unmap> mapped(start, Unmap{.size = size});
  mapped.get_deleter().mapping = mappings().add(start, size, name, std::move(check_unchanged));
  return {{static_cast<const std::byte*>(start), size},
          std::shared_ptr<const void>(std::move(mapped)),
          release_pages};
}

SharedBytes map_privately(int fd, std::size_t size, const std::string& name) {
  if (size == 0) return {};
  void* start = map_file(fd, size, name, {PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE});
  return {{static_cast<const std::byte*>(start), size},
          std::shared_ptr<const void>(std::unique_ptr<void, Unmap>(start, Unmap{.size = size}))};
}

GuardedReads::GuardedReads() {
  handle_bus_errors();
  if (guards++ == 0) mappings().set_guarded(true);
  ++guards_here;
}
GuardedReads::~GuardedReads() {
  --guards_here;
  if (--guards == 0) mappings().set_guarded(false);
}

bool reads_are_guarded() { return guards_here != 0; }

void check_mapped_reads(const std::string& path) { mappings().check(path); }
void check_mapped_pages() { mappings().check({}, /*only_pages=*/true); }

}  // namespace cairn
