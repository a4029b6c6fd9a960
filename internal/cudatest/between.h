// What between.c does to a driver: see there.
#include <stdint.h>

void between_install(void);
void between_fail(const char *name, int nth, int code);
void between_reset(void);
void between_live(uint64_t *out);
uint64_t between_launches(const char *kernel);
void between_reset_launches(void);
void between_memory(uint64_t bytes);
void between_attribute(int number, int value);
void between_defaults(void);
