// Package cudasim holds a CUDA driver that runs kernels on the CPU, and the tests of it. There is no Go code to import:
// "make cudasim" compiles the simulator and every .cu file of the repository into dist/libcudasim.so, which a program
// built with
// -tags cuda loads where KHOP_CUDA_DRIVER names it.
//
// # Basics
//
// Every load and store of a kernel is seen. The simulator finds accesses outside of live memory, races, missing
// barriers and waits, and counts the lines of memory that each warp instruction touches. README.md beside this file
// says how, and how to read what it reports; package internal/cudatest reads it from Go tests.
//
// # Caveats
//
// A kernel that passes here may still be slow, and may still be wrong in ways that README.md lists. Numbers of lines
// are a model of the memory system; times mean nothing.
package cudasim
