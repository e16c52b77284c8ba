#include "interlace/kernel/type_name.hpp"

#include <gtest/gtest.h>

#include <typeinfo>
#include <utility>

namespace interlace::type_name_tests {
namespace {

struct plain {};
template <class... T>
struct outer {
  template <unsigned N>
  struct inner {};
  struct leaf {};
};

template <class T>
std::string name_of() {
  return kernel::short_type_name(typeid(T).name());
}

TEST(type_name, has_no_enclosing_scopes) {
  EXPECT_EQ(name_of<plain>(), "plain");
  EXPECT_EQ(name_of<outer<>>(), "outer<>");
  EXPECT_EQ((name_of<outer<plain, const float*>>()), "outer<plain, float const*>");
  EXPECT_EQ((name_of<outer<plain>::inner<16>>()), "inner<16u>");
  EXPECT_EQ((name_of<outer<outer<plain>::leaf, outer<plain, int>>>()),
            "outer<leaf, outer<plain, int>>");
  EXPECT_EQ((name_of<std::pair<plain, unsigned>>()), "pair<plain, unsigned int>");
  struct local {};
  EXPECT_EQ(name_of<local>(), "local");
}

TEST(type_name, unreadable_names_stay_unchanged) {
  EXPECT_EQ(kernel::readable_type_name("?no name"), "?no name");
  EXPECT_EQ(kernel::short_type_name("?no name"), "?no name");
  EXPECT_EQ(kernel::readable_type_name(typeid(plain).name()),
            "interlace::type_name_tests::(anonymous namespace)::plain");
}

}  // namespace
}  // namespace interlace::type_name_tests
