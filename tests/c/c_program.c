/* c_program FOLDER: uses each function of the C interface, as a program in C99. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cairn/c.h"

static void check(int is_true, const char* what, int line) {
  if (is_true) return;
  fprintf(stderr, "line %d: not so: %s\n", line, what);
  exit(1);
}
#define CHECK(condition) check(condition, #condition, __LINE__)

static void check_done(cairn_status status, cairn_error* error, int line) {
  if (status == CAIRN_OK) return;
  fprintf(stderr, "line %d: %s\n", line, cairn_error_message(error));
  exit(1);
}
#define DO(call) check_done(call, error, __LINE__)

static const char* in_folder(const char* folder, const char* name) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static const float kWeights[6] = {1, 2, 3, 4, 5, 6};

static cairn_tree* make_tree(void) {
  static float weights[6];
  static int64_t shape[2] = {2, 3};
  static int64_t transposed[2] = {1, 2};
  static int64_t count[1] = {1};
  static int64_t step = 7;
  cairn_error* error = NULL;
  cairn_tree* tree = NULL;
  memcpy(weights, kWeights, sizeof weights);
  const cairn_tensor tensors[3] = {{"weight", "float32", 2, shape, NULL, weights},
                                   {"turned", "float32", 2, shape, transposed, weights},
                                   {"step", "int64", 1, count, NULL, &step}};
  DO(cairn_tree_from_tensors(tensors, 3, &tree, &error));
  return tree;
}

static void check_tensors(cairn_tree* tree) {
  cairn_error* error = NULL;
  const cairn_tensor* tensors = NULL;
  size_t count = 0;
  DO(cairn_tree_tensors(tree, &tensors, &count, &error));
  CHECK(count == 3);
  CHECK(strcmp(tensors[0].name, "weight") == 0 && strcmp(tensors[0].dtype, "float32") == 0);
  CHECK(tensors[0].dimensions == 2 && tensors[0].shape[1] == 3 && tensors[0].strides[0] == 3);
  CHECK(memcmp(tensors[0].data, kWeights, sizeof kWeights) == 0);
  CHECK(tensors[1].strides[0] == 1 && tensors[1].strides[1] == 2);
  CHECK(*(const int64_t*)tensors[2].data == 7);
}

static void save_and_load(const char* folder) {
  const char* place = in_folder(folder, "c.pt");
  cairn_error* error = NULL;
  cairn_tree* tree = make_tree();
  int removed = 0;
  DO(cairn_save(tree, place, 0, &error));
  CHECK(cairn_save(tree, place, CAIRN_NO_OVERWRITE, &error) == CAIRN_ALREADY_EXISTS);
  CHECK(strstr(cairn_error_message(error), "c.pt") != NULL);
  CHECK(cairn_error_exit_code(error) == 2);
  cairn_error_free(error);
  cairn_tree_free(tree);
  for (int how = 0; how < 3; ++how) {
    DO(cairn_load(place, how == 2 ? CAIRN_UNVERIFIED : 0, &tree, &error));
    DO(how == 1 ? cairn_tree_map(tree, &error) : cairn_tree_read(tree, NULL, &error));
    check_tensors(tree);
    cairn_tree_free(tree);
  }
  DO(cairn_remove(place, &removed, &error));
  CHECK(removed == 1);
  CHECK(cairn_load(place, 0, &tree, NULL) == CAIRN_NOT_FOUND);
  CHECK(tree == NULL);
}

/* The pickle of one tree makes another one. */
static void go_by_pickle(const char* folder) {
  const char* place = in_folder(folder, "pickled.pt");
  cairn_error* error = NULL;
  cairn_tree* tree = make_tree();
  cairn_tree* again = NULL;
  char* lines = NULL;
  cairn_bytes pickle = {NULL, 0};
  const cairn_bytes* storages = NULL;
  size_t count = 0;
  DO(cairn_tree_pickle(tree, &pickle, &error));
  DO(cairn_tree_storages(tree, &storages, &count, &error));
  CHECK(count == 3 && storages[0].size == sizeof kWeights);
  DO(cairn_tree_from_pickle(pickle, storages, count, &again, &error));
  DO(cairn_tree_check_classes(again, NULL, 0, &error));
  DO(cairn_tree_lost_attributes(again, &lines, &error));
  CHECK(lines == NULL);
  DO(cairn_save(again, place, 0, &error));
  CHECK(cairn_tree_from_pickle(pickle, storages, 1, &again, &error) == CAIRN_USAGE);
  cairn_error_free(error);
  CHECK(again == NULL);
  DO(cairn_load(place, 0, &again, &error));
  float into[3][6];
  void* const places[3] = {into[0], into[1], into[2]};
  DO(cairn_tree_read(again, places, &error));
  CHECK(memcmp(into[0], kWeights, sizeof kWeights) == 0);
  check_tensors(again);
  cairn_tree_free(again);
  cairn_tree_free(tree);
}

static void save_in_the_background(const char* folder) {
  char run[4096];
  cairn_error* error = NULL;
  cairn_saver* saver = NULL;
  cairn_tree* tree = make_tree();
  char* path = NULL;
  char* skipped = NULL;
  snprintf(run, sizeof run, "%s/run", folder);
  const cairn_saver_options options = {sizeof options, run, NULL, "latest.pt", NULL, 2, 1};
  DO(cairn_saver_new(&options, &saver, &error));
  for (int64_t step = 1; step <= 4; ++step)
    DO(cairn_saver_save(saver, tree, NULL, step, &error));
  DO(cairn_saver_wait(saver, &error));
  cairn_tree_free(tree);
  DO(cairn_find_latest(run, NULL, &path, &skipped, &error));
  CHECK(path != NULL && strstr(path, "step4.pt") != NULL && skipped == NULL);
  cairn_text_free(path);
  path = NULL;
  DO(cairn_saver_resume(saver, &tree, &path, &skipped, &error));
  DO(cairn_tree_read(tree, NULL, &error));
  check_tensors(tree);
  cairn_text_free(path);
  cairn_tree_free(tree);
  cairn_saver_free(saver);

  const char* const arguments[3] = {"ls", "--json", run};
  cairn_answer answer;
  DO(cairn_tool(arguments, 3, &answer, &error));
  CHECK(answer.exit_code == 0);
  CHECK(strstr(answer.out, "step3.pt") != NULL && strstr(answer.out, "step2.pt") == NULL);
  cairn_text_free(answer.out);
  cairn_text_free(answer.err);
}

static void refuse_null(void) {
  cairn_error* error = NULL;
  int code = 0;
  CHECK(cairn_save(NULL, "a.pt", 0, &error) == CAIRN_USAGE);
  CHECK(strcmp(cairn_error_message(error), "tree is null") == 0);
  CHECK(cairn_error_number(error) == 0 && cairn_error_is_retryable(error) == 0);
  cairn_error_free(error);
  CHECK(cairn_load(NULL, 0, NULL, NULL) == CAIRN_USAGE);
  CHECK(cairn_tool_main(NULL, 1, &code, NULL) == CAIRN_USAGE);
  cairn_error_free(NULL);
  cairn_tree_free(NULL);
  cairn_saver_free(NULL);
  cairn_text_free(NULL);
  CHECK(strcmp(cairn_version(), "0.") > 0);
}

int main(int count, char** arguments) {
  CHECK(count == 2);
  save_and_load(arguments[1]);
  go_by_pickle(arguments[1]);
  save_in_the_background(arguments[1]);
  refuse_null();
  return 0;
}
