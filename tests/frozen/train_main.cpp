// Frozen: users' programs, see CMakeLists.txt.
#include "train_programs.h"

int main(int argc, char** argv) {
  return frozen::run_all(argc, argv,
                         {{"own_loop", frozen::own_loop},
                          {"own_loop_with_state", frozen::own_loop_with_state},
                          {"own_parts", frozen::own_parts},
                          {"own_logger", frozen::own_logger},
                          {"own_place", frozen::own_place},
                          {"whole_trainer", frozen::whole_trainer},
                          {"two_savers", frozen::two_savers},
                          {"interrupted_run", frozen::interrupted_run},
                          {"trainer_in_own_stores", frozen::trainer_in_own_stores}});
}
