// What the tests of the simulator share. They call it as a program calls a driver: through symbols looked up at run
// time.
#pragma once
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

typedef unsigned long long Device;
typedef std::vector<int> Ints;

extern void* library;
template <class R = int, class... A> R call(const char* name, A... a) {
  auto f = (R(*)(A...))dlsym(library, name);
  if (!f) {
    printf("FAIL: the library lacks %s\n", name);
    exit(1);
  }
  return f(a...);
}

// Each case runs in every order of lanes; the settings are those of KHOP_CUDASIM.
struct Case { const char* name; void (*run)(); };
void expect(bool good, const char* format, ...) __attribute__((format(printf, 2, 3)));
// A driver call that must answer a code.
#define EXPECT_CODE(want, ...)                                                                              \
  do {                                                                                                      \
    int code = call(__VA_ARGS__);                                                                           \
    expect(code == (want), "line %d: code %d, want %d", __LINE__, code, (int)(want));                       \
  } while (0)
#define OK(...) EXPECT_CODE(0, __VA_ARGS__)

// Synchronises; then there must be no finding, or one that contains the word, and the code must be this one. Forgets
// it.
void expectClean(const char* what);
void expectFinding(const char* what, int code, const char* word);

Device allocate(size_t bytes);
void freeAll();                                       // what allocate gave
template <class T> Device upload(const std::vector<T>& v) {
  Device p = allocate(v.size() * sizeof(T));
  OK("cuMemcpyHtoD_v2", p, (const void*)v.data(), v.size() * sizeof(T));
  return p;
}
template <class T> std::vector<T> download(Device p, size_t n) {
  std::vector<T> v(n);
  OK("cuMemcpyDtoH_v2", (void*)v.data(), p, n * sizeof(T));
  return v;
}

void* kernel(const char* name);
struct Shape { unsigned grid, block, shared = 0; void* stream = nullptr; };
template <class... A> void launch(const char* name, Shape s, A... a) {
  uint64_t cells[] = {(uint64_t)a..., 0};
  void* params[sizeof...(A) + 1] = {};
  for (size_t i = 0; i < sizeof...(A); i++) params[i] = &cells[i];
  OK("cuLaunchKernel", kernel(name), s.grid, 1u, 1u, s.block, 1u, 1u, s.shared, s.stream, (void**)params,
     (void**)nullptr);
}

extern const std::vector<Case> resultCases, memoryCases, raceCases, streamCases, barrierCases, driverCases, deviceCases,
    countCases;
