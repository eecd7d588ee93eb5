// Uses what an installed cairn::core promises: saving, verifying, loading, and the checks of a
// store. Argument: a file to write.
#include <cairn/checkpoint.h>
#include <cairn/storage/object_store_checks.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const cairn::Value state =
      cairn::Dict{{"epoch", 3}, {"name", "unicorn"}, {"losses", cairn::List{0.5, 0.25}}};
  cairn::save(state, argv[1]);
  if (!cairn::verify(argv[1]).ok() || !(cairn::load(argv[1]) == state)) return 1;
  for (const cairn::ObjectStoreCheck& check : cairn::object_store_checks()) {
    check.run(*cairn::memory_store(), "run");  // throws if the store fails the check
  }
  std::puts(argv[1]);
}
