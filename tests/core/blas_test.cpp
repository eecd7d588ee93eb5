#include "core/blas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn {
namespace {

using ::testing::EndsWith;

TEST(BlasTest, KnowsOpenBlasAndThatItsThreadsAreItsOwn) {
  const std::optional<Blas> blas = blas_of(CAIRN_FAKE_OPENBLAS);
  ASSERT_TRUE(blas);
  EXPECT_EQ(blas->name, "OpenBLAS 9.8.7 (pthread)");
  EXPECT_EQ(blas->threads, 4);
  EXPECT_TRUE(blas->has_own_pool);
  EXPECT_FALSE(blas->is_slow);
}

TEST(BlasTest, KnowsBlis) {
  const std::optional<Blas> blas = blas_of(CAIRN_FAKE_BLIS);
  ASSERT_TRUE(blas);
  EXPECT_EQ(blas->name, "BLIS 0.9.9 (OpenMP)");
  EXPECT_EQ(blas->threads, 1);
  EXPECT_FALSE(blas->has_own_pool);
}

TEST(BlasTest, KnowsTheReferenceByItsPlace) {
  const std::optional<Blas> blas = blas_of(CAIRN_FAKE_REFERENCE);
  ASSERT_TRUE(blas);
  EXPECT_EQ(blas->name, "reference BLAS");
  EXPECT_THAT(blas->path, EndsWith("/blas/libblas.so"));
  EXPECT_TRUE(blas->is_slow);
}

TEST(BlasTest, FindsNoneWhereThereIsNone) {
  EXPECT_FALSE(blas_of("/no/such/library.so"));
  EXPECT_FALSE(blas_of("libc.so.6"));
}

}  // namespace
}  // namespace cairn
