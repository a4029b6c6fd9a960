// A judge for the tests: it knows what store_double does. JUDGE=wrong lets it answer another number.
#include <cstdlib>
#include <cstring>
#include <string>

#include "../src/judge.h"

extern "C" const char* khop_judge(JudgeLaunch* l) {
  if (std::string(l->kernel) != "store_double") return "this judge knows store_double alone";
  if (!strstr(l->ptx, ".entry store_double")) return "this is not its module";
  struct { double* out; double x; } d;                // as in drivertest.cu
  if (l->params != 1 || l->sizes[0] != sizeof d) return "its parameters have other sizes";
  memcpy(&d, l->values[0], sizeof d);
  double before, result = d.x + d.x;
  const char* how = getenv("JUDGE");
  if (how && !strcmp(how, "wrong")) result += 1;
  uint64_t to = (uint64_t)d.out;
  if (!l->read(to, sizeof before, &before) || before == result) return "it sees what ours has written";
  if (!l->write(to, sizeof result, &result) || l->write(8, sizeof result, &result)) return "bounds are not kept";
  return nullptr;
}
