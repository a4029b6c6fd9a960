// What a judge is: a library of others that runs a kernel's PTX, whose results judge.cc compares with ours. It has the
// function khop_judge; KHOP_CUDASIM_JUDGE names it.
#pragma once
#include <cstddef>
#include <cstdint>

struct JudgeLaunch {
  const char *ptx, *kernel;                    // the text of the module, and the entry
  unsigned grid[3], block[3], shared;          // shared: dynamic bytes
  int params;
  const void* const* values;
  const int* sizes;
  // Memory as it was before the launch, with what the judge has written since. They answer 0 outside of what is live.
  int (*read)(uint64_t from, size_t bytes, void* to);
  int (*write)(uint64_t to, size_t bytes, const void* from);
  int count;                                   // whether sectors and lines are wanted
  uint64_t traffic[2][4];                      // the judge's, of reads and writes: as struct Traffic
};

// Null, or why the kernel was not run to its end.
extern "C" const char* khop_judge(JudgeLaunch*);
