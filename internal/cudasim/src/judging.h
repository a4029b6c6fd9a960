// judge.cc, as the rest of the simulator sees it: a second opinion on each kernel, by a library of others.
#pragma once
#include "sim.h"

void initJudge();                                     // reads the environment
void judgeModule(const std::string& ptx, const std::vector<std::string>& entries);
void judgeBegins(const Launch*);
void keepForJudge(uintptr_t a, size_t n);             // before ours writes there
void judgeEnds(const Launch*, bool whole);            // whole: it ran to its end
