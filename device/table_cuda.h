// What table_cuda.c tells beyond the driver's own functions.

const char *khop_cuda_why(void);  // why no driver was loaded; empty if one was. Lives as long as the process.
int khop_cuda_init_code(void);    // what the driver's cuInit answered, a CUresult
