/* classify.cpp -- the main job from C++17: the C header is valid C++, and a few lines wrap it in
 * classes.
 *
 *   c++ -std=c++17 classify.cpp $(pkg-config --cflags --libs rushlight) -o classify_cpp
 *   ./classify_cpp tests/data/digits.pt */
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <rushlight/rushlight.h>

namespace {

/* Throws an exception with the error's text if a status is not RUSH_OK. */
class checked {
public:
  ~checked() { rush_error_clear(&err_); }
  rush_error *operator&() { return &err_; }
  void operator()(rush_status st)
  {
    if (st != RUSH_OK)
      throw std::runtime_error(std::string(err_.type ? err_.type : "") + ": " + err_.message);
  }

private:
  rush_error err_ = RUSH_ERROR_INIT;
};

/* Owns one reference. */
class value {
public:
  explicit value(rush_value v) : v_(v) {}
  value(value &&other) noexcept : v_(other.v_) { other.v_ = rush_value_none(); }
  value(const value &) = delete;
  value &operator=(const value &) = delete;
  ~value() { rush_value_release(v_); }
  const rush_value &get() const { return v_; }

private:
  rush_value v_;
};

using module = std::unique_ptr<rush_module, decltype(&rush_module_release)>;

module load(const char *path)
{
  rush_module *m = nullptr;
  checked check;
  check(rush_module_load(nullptr, path, nullptr, &m, &check));
  return module(m, rush_module_release);
}

/* Use the vector's memory in place: it has to outlive the tensor. */
value wrap(std::vector<float> &data, const std::vector<std::int64_t> &sizes)
{
  rush_value v;
  checked check;
  check(rush_tensor_wrap(nullptr, RUSH_FLOAT32, static_cast<int>(sizes.size()), sizes.data(), nullptr, data.data(), nullptr,
                         nullptr, &v, &check));
  return value(v);
}

value call(const module &m, const value &x)
{
  rush_value y;
  checked check;
  check(rush_module_call(m.get(), "forward", &x.get(), 1, &y, &check));
  return value(y);
}

} // namespace

int main(int argc, char **argv)
try {
  if (argc != 2) {
    std::fprintf(stderr, "usage: classify_cpp MODEL\n");
    return 2;
  }
  std::vector<float> pixels(64);
  for (int i = 0; i < 64; i++)
    pixels[i] = i % 8 == 3 || i % 8 == 4 ? 1.0f : 0.0f; /* an upright bar */
  module m = load(argv[1]);
  value image = wrap(pixels, {1, 1, 8, 8});
  value scores = call(m, image);
  const float *p = static_cast<const float *>(rush_tensor_data(scores.get().as.tensor));
  const long long n = rush_tensor_n_elems(scores.get().as.tensor);
  long long best = 0;
  for (long long i = 1; i < n; i++)
    if (p[i] > p[best])
      best = i;
  std::printf("class %lld of %lld, score %.3f\n", best, n, static_cast<double>(p[best]));
  return 0;
} catch (const std::exception &e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
