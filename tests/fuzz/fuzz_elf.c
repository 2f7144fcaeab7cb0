/* ELF files of unknown origin. */
#include <stddef.h>
#include <stdint.h>

#include "workspace/pack/elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_elf_info info;
    fy_err e = {0};
    fy_str words = {0};
    fy_elf_check(data, size, "aarch64-linux", NULL);
    if (fy_elf_inspect(data, size, &info, &e) == 0)
        fy_elf_text(&info, &words);
    fy_str_release(&words);
    return 0;
}
