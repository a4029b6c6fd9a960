// Findings as the host half sees them, and what starts up with them. report() itself is in sim.h.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

int findingCount();
const std::string& finding(int i);          // valid until the findings are cleared
void clearFindings();                       // also revives a lost device
void clearSeenRaces();                      // race.h reports a pair of places once

void* reserve(size_t bytes);                // zeroed memory that costs nothing until it is touched
void initPlaces(uintptr_t libraryBase);
const std::string& ownPath();               // the file of this library
