/*
 * The program of a wheel that has the shared library: the command khop is in there, so that a wheel holds it once.
 * tools/libkhop.sh builds it. Within the package (khop/bin/khop) it is the command. Where pip puts scripts it looks for
 * the package beside it and becomes that one: without Python, which would take longer to start than the command.
 */
#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Where pip puts packages, seen from above the folder of scripts; the last two with --target, and where uv links. */
static const char *const places[] = {
    "lib/python3*/site-packages", "lib64/python3*/site-packages",
    "lib/python3*/dist-packages", "local/lib/python3*/dist-packages",
    "lib/pypy3*/site-packages",   ".",
    "..",
};

/* Becomes the program of a package of this version, or with any of another one. Returns where there is none. */
static void become(const char *above, int any, char **arguments) {
    char path[3 * PATH_MAX];
    /* Above may itself be a folder khop: with any the last two could find this program again. */
    for (size_t i = 0; i < sizeof places / sizeof *places - (any ? 2 : 0); i++) {
        glob_t found;
        snprintf(path, sizeof path, "%s/%s/khop%s", above, places[i], any ? "" : "-" VERSION ".dist-info");
        if (glob(path, 0, NULL, &found) == 0) {
            for (size_t k = 0; k < found.gl_pathc; k++) {
                snprintf(path, sizeof path, "%s/../khop/bin/khop", found.gl_pathv[k]);
                execv(path, arguments);
            }
            globfree(&found);
        }
    }
}

int main(int count, char **arguments) {
    char self[PATH_MAX], path[2 * PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0) {
        perror("khop: /proc/self/exe");
        return 1;
    }
    self[length] = 0;
    for (int up = 0; up < 2; up++) { /* to the folder above this program's */
        *strrchr(self, '/') = 0;
    }
    snprintf(path, sizeof path, "%s/__init__.py", self);
    if (access(path, F_OK) != 0) {
        become(self, 0, arguments);
        become(self, 1, arguments);
        fprintf(stderr, "khop: the package khop is not beside this program: pip install --force-reinstall khop\n");
        return 1;
    }
    snprintf(path, sizeof path, "%s/lib/libkhop.so", self);
    void *library = dlopen(path, RTLD_NOW);
    int32_t (*command)(int32_t, char **) = NULL;
    if (library != NULL) {
        *(void **)&command = dlsym(library, "khop_main");
    }
    if (command == NULL) {
        fprintf(stderr, "khop: %s\n", dlerror());
        return 1;
    }
    return command(count, arguments);
}
