/* A plugin of QEMU's user emulation that counts the instructions a guest executes, by function and
 * by block, where no silicon is at hand:
 *
 *   qemu-aarch64 -plugin count_instructions.so,out=FILE PROGRAM...
 *
 * FILE gets lines of fields between tabs when the guest exits:
 *   total  INSTRUCTIONS
 *   symbol INSTRUCTIONS OBJECT FUNCTION
 *   block  INSTRUCTIONS OBJECT FUNCTION ADDRESS TIMES LENGTH     at least a thousandth of all
 *
 * OBJECT is the file's name and ADDRESS the one that objdump shows. Counters are plain additions
 * inside the translated code, so the guest must run one thread. The declarations below are those
 * parts of version 1 of the plugin interface (QEMU's documentation, "TCG Plugins") that are used:
 * Debian packages no header. */
#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t plugin_id;
typedef struct qemu_plugin_tb plugin_tb;
typedef struct qemu_plugin_insn plugin_insn;
enum { INLINE_ADD_U64 };

EXPORT extern int qemu_plugin_version;
EXPORT int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, void (*cb)(plugin_id, plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline(plugin_tb *tb, int op, void *counter, uint64_t add);
void qemu_plugin_register_atexit_cb(plugin_id id, void (*cb)(plugin_id, void *), void *user);
size_t qemu_plugin_tb_n_insns(const plugin_tb *tb);
plugin_insn *qemu_plugin_tb_get_insn(const plugin_tb *tb, size_t index);
void *qemu_plugin_insn_haddr(const plugin_insn *insn);

int qemu_plugin_version = 1;

typedef struct {
    char path[512];
    uintptr_t begin, end;
    uint64_t offset;
} mapping;

typedef struct {
    char path[512]; /* "": none yet */
    const uint8_t *bytes;
    size_t n_bytes;
    const Elf64_Sym *symbols;
    const char *names;
    size_t n_symbols;
} object;

typedef struct block {
    struct block *next;
    uintptr_t host; /* where the emulator has the code mapped */
    uint64_t length, times;
    const char *file, *function;
    uint64_t address;
} block;

enum { MAX_MAPPINGS = 512, MAX_OBJECTS = 32 };
static block *blocks;
static size_t n_blocks;
static mapping mappings[MAX_MAPPINGS];
static size_t n_mappings;
static object objects[MAX_OBJECTS];
static const char *out_path;

static void translated(plugin_id id, plugin_tb *tb)
{
    (void)id;
    block *b = calloc(1, sizeof *b);
    if (b == NULL)
        abort();
    b->host = (uintptr_t)qemu_plugin_insn_haddr(qemu_plugin_tb_get_insn(tb, 0));
    b->length = qemu_plugin_tb_n_insns(tb);
    b->next = blocks;
    blocks = b;
    n_blocks++;
    qemu_plugin_register_vcpu_tb_exec_inline(tb, INLINE_ADD_U64, &b->times, 1);
}

static void read_mappings(void)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[1024];
    while (f != NULL && n_mappings < MAX_MAPPINGS && fgets(line, sizeof line, f) != NULL) {
        mapping *m = &mappings[n_mappings];
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*s %" SCNx64 " %*s %*s %511s", &m->begin,
                   &m->end, &m->offset, m->path) == 4)
            n_mappings += m->path[0] == '/';
    }
    if (f != NULL)
        fclose(f);
}

/* The files are those the guest runs: their inner offsets are taken at their word. */
static void read_symbols(object *o)
{
    const Elf64_Ehdr *head = (const void *)o->bytes;
    if (o->n_bytes < sizeof *head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0)
        return;
    const Elf64_Shdr *sections = (const void *)(o->bytes + head->e_shoff);
    for (int i = 0; head->e_shoff != 0 && i < head->e_shnum; i++) {
        const Elf64_Shdr *s = &sections[i];
        if (s->sh_type != SHT_SYMTAB && (s->sh_type != SHT_DYNSYM || o->symbols != NULL))
            continue;
        o->symbols = (const void *)(o->bytes + s->sh_offset);
        o->n_symbols = s->sh_size / sizeof(Elf64_Sym);
        o->names = (const char *)o->bytes + sections[s->sh_link].sh_offset;
    }
}

static object *object_of(const char *path)
{
    size_t i = 0;
    while (i < MAX_OBJECTS && objects[i].path[0] != '\0' && strcmp(objects[i].path, path) != 0)
        i++;
    if (i == MAX_OBJECTS)
        return NULL;
    object *o = &objects[i];
    if (o->path[0] != '\0')
        return o;
    snprintf(o->path, sizeof o->path, "%s", path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd >= 0 && fstat(fd, &st) == 0) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p != MAP_FAILED) {
            o->bytes = p;
            o->n_bytes = (size_t)st.st_size;
            read_symbols(o);
        }
    }
    if (fd >= 0)
        close(fd);
    return o;
}

static uint64_t address_in(const object *o, uint64_t offset)
{
    const Elf64_Ehdr *head = (const void *)o->bytes;
    if (o->symbols == NULL)
        return offset;
    const Elf64_Phdr *p = (const void *)(o->bytes + head->e_phoff);
    for (int i = 0; i < head->e_phnum; i++) {
        if (p[i].p_type == PT_LOAD && offset >= p[i].p_offset &&
            offset - p[i].p_offset < p[i].p_filesz)
            return p[i].p_vaddr + (offset - p[i].p_offset);
    }
    return offset;
}

static const char *function_at(const object *o, uint64_t address)
{
    for (size_t i = 0; i < o->n_symbols; i++) {
        const Elf64_Sym *s = &o->symbols[i];
        if (ELF64_ST_TYPE(s->st_info) == STT_FUNC && address - s->st_value < s->st_size)
            return o->names + s->st_name;
    }
    return "?";
}

static void locate(block *b)
{
    b->file = b->function = "?";
    for (size_t i = 0; i < n_mappings; i++) {
        const mapping *m = &mappings[i];
        if (b->host < m->begin || b->host >= m->end)
            continue;
        const object *o = object_of(m->path);
        if (o == NULL)
            return;
        b->file = strrchr(o->path, '/') + 1;
        b->address = address_in(o, b->host - m->begin + m->offset);
        b->function = function_at(o, b->address);
        return;
    }
}

static int by_place(const void *pa, const void *pb)
{
    const block *a = *(block *const *)pa, *b = *(block *const *)pb;
    int c = strcmp(a->file, b->file);
    if (c == 0)
        c = strcmp(a->function, b->function);
    return c ? c : (a->address > b->address) - (a->address < b->address);
}

static int same_function(const block *a, const block *b)
{
    return strcmp(a->file, b->file) == 0 && strcmp(a->function, b->function) == 0;
}

static void print_blocks(FILE *f, block **list, size_t n)
{
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++)
        total += list[i]->times * list[i]->length;
    fprintf(f, "total\t%" PRIu64 "\n", total);
    for (size_t i = 0; i < n;) {
        const block *first = list[i];
        uint64_t sum = 0;
        for (; i < n && same_function(first, list[i]); i++)
            sum += list[i]->times * list[i]->length;
        if (sum > 0)
            fprintf(f, "symbol\t%" PRIu64 "\t%s\t%s\n", sum, first->file, first->function);
    }
    for (size_t i = 0; i < n; i++) {
        const block *b = list[i];
        uint64_t sum = b->times * b->length;
        if (sum > 0 && sum >= total / 1000)
            fprintf(f, "block\t%" PRIu64 "\t%s\t%s\t%" PRIx64 "\t%" PRIu64 "\t%" PRIu64 "\n", sum,
                    b->file, b->function, b->address, b->times, b->length);
    }
}

static void at_exit(plugin_id id, void *user)
{
    (void)id, (void)user;
    read_mappings();
    block **list = malloc((n_blocks + 1) * sizeof(block *));
    FILE *f = fopen(out_path, "w");
    if (list == NULL || f == NULL) {
        perror(out_path);
        _exit(1);
    }
    size_t n = 0;
    for (block *b = blocks; b != NULL; b = b->next) {
        if (b->times == 0)
            continue;
        locate(b);
        list[n++] = b;
    }
    qsort(list, n, sizeof list[0], by_place);
    print_blocks(f, list, n);
    fclose(f);
}

int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv)
{
    (void)info;
    if (argc != 1 || strncmp(argv[0], "out=", 4) != 0) {
        fprintf(stderr, "count_instructions: one argument is needed: out=FILE\n");
        return -1;
    }
    out_path = strdup(argv[0] + 4);
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, at_exit, NULL);
    return 0;
}
