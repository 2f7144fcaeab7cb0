/* Feeds every file named on the command line, and every file of a directory named there, to a fuzz
 * target: the corpora become tests that need no fuzzer. Speaks TAP. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Returns how many inputs were fed; 0 when the file cannot be read. */
static size_t feed_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    struct stat st;
    if (f == NULL || fstat(fileno(f), &st) != 0) {
        fprintf(stderr, "%s: cannot open\n", path);
        if (f != NULL)
            fclose(f);
        return 0;
    }
    size_t size = (size_t)st.st_size;
    uint8_t *data =
        malloc(size > 0 ? size : 1); /* exact, so that a sanitizer sees a read past the end */
    size_t n = data != NULL && fread(data, 1, size, f) == size;
    if (n > 0)
        LLVMFuzzerTestOneInput(data, size);
    free(data);
    fclose(f);
    return n;
}

static size_t feed(const char *path)
{
    DIR *d = opendir(path);
    if (d == NULL)
        return feed_file(path);
    size_t n = 0;
    for (struct dirent *entry; (entry = readdir(d)) != NULL;) {
        char name[1024];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        n += feed_file(name);
    }
    closedir(d);
    return n;
}

int main(int argc, char **argv)
{
    int failed = argc < 2;
    printf("1..%d\n", argc - 1);
    for (int i = 1; i < argc; i++) {
        size_t n = feed(argv[i]);
        printf("%sok %d - %s: %zu inputs replayed\n", n > 0 ? "" : "not ", i, argv[i], n);
        failed |= n == 0;
    }
    return failed;
}
