// Frozen: users' programs, see CMakeLists.txt.
#include "core_programs.h"

int main(int argc, char** argv) {
  return frozen::run_all(argc, argv,
                         {{"own_store", frozen::own_store},
                          {"wrapped_store", frozen::wrapped_store},
                          {"checkpoint_api", frozen::checkpoint_api},
                          {"times_and_names", frozen::times_and_names}});
}
