/* The agent at the other end of a socket: a host played by the test, frame by frame. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "bundle/agent_job.h"
#include "bundle/agent_proto.h"
#include "bundle/agent_store.h"

#define BIG (FY_MANIFEST_BLOCK * 2 + 1000u) /* three blocks */

static char tmp[64];

static int tmp_make(void **state)
{
    (void)state;
    strcpy(tmp, "/tmp/ferry-agent-XXXXXX");
    return mkdtemp(tmp) != NULL ? 0 : -1;
}

static int tmp_remove(void **state)
{
    (void)state;
    return fy_store_remove(tmp, NULL);
}

static const char *at(const char *rel)
{
    static char ring[16][512];
    static unsigned next;
    char *p = ring[next++ % 16];
    snprintf(p, sizeof ring[0], "%s/%s", tmp, rel);
    return p;
}

/* --- what is pushed --------------------------------------------------------------------------- */

typedef struct {
    const char *path;
    uint8_t *bytes;
    size_t n;
} content;

/* Bytes that differ from block to block. */
static uint8_t *noise(size_t n, uint32_t seed)
{
    uint8_t *p = malloc(n + 1);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = (uint8_t)(seed >> 24);
    }
    return p;
}

static void put_hash(fy_str *s, const void *p, size_t n)
{
    uint8_t hash[FY_SHA256_BYTES];
    char hex[FY_SHA256_HEX];
    assert_int_equal(fy_sha256_of(p, n, hash, NULL), 0);
    fy_sha256_to_hex(hash, hex);
    fy_str_printf(s, "\"%s\"", hex);
}

static void manifest_of(const content *c, size_t n, fy_str *s)
{
    fy_str_puts(s, "{\"format_version\":1,\"tool\":\"test\",\"target\":\"any\",\"files\":[");
    for (size_t i = 0; i < n; i++) {
        fy_str_printf(
            s, "%s{\"path\":\"%s\",\"size\":%zu,\"mode\":\"%s\",\"sha256\":", i > 0 ? "," : "",
            c[i].path, c[i].n, strncmp(c[i].path, "bin/", 4) == 0 ? "0755" : "0644");
        put_hash(s, c[i].bytes, c[i].n);
        for (size_t at_byte = 0; c[i].n > FY_MANIFEST_BLOCK && at_byte < c[i].n;
             at_byte += FY_MANIFEST_BLOCK) {
            size_t left = c[i].n - at_byte;
            fy_str_puts(s, at_byte == 0 ? ",\"blocks\":[" : ",");
            put_hash(s, c[i].bytes + at_byte, left < FY_MANIFEST_BLOCK ? left : FY_MANIFEST_BLOCK);
        }
        fy_str_puts(s, c[i].n > FY_MANIFEST_BLOCK ? "]}" : "}");
    }
    fy_str_puts(s, "]");
    fy_str tail = {0};
    fy_str_puts(&tail, ",\"sha256\":");
    put_hash(&tail, s->ptr, s->len);
    fy_str_printf(s, "%s}", fy_str_z(&tail));
    fy_str_release(&tail);
}

/* --- the host --------------------------------------------------------------------------------- */

typedef struct {
    int fd, agent_fd;
    bool no_links;
    pthread_t thread;
    fy_err err;
    int rc;
    fy_agent_reader in;
    fy_manifest m;
    const content *content;
} host;

/* From here on this thread may make no hard link, as on a phone. */
static void forbid_links(void)
{
#ifdef SYS_link
    struct sock_filter f[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_link, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_linkat, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
    };
#else
    struct sock_filter f[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_linkat, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
    };
#endif
    struct sock_fprog prog = {sizeof f / sizeof f[0], f};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

static void *serve(void *arg)
{
    host *h = arg;
    fy_agent_params p = {.in_fd = h->agent_fd,
                         .out_fd = h->agent_fd,
                         .version = "test",
                         .below = tmp,
                         .n_threads = 3};
    if (h->no_links)
        forbid_links();
    h->rc = fy_agent_serve(&p, &h->err);
    close(h->agent_fd);
    return NULL;
}

static void send_all(host *h, fy_str *s)
{
    assert_false(s->oom);
    assert_int_equal(fy_write_all(h->fd, s->ptr, s->len, "the agent", NULL), 0);
    fy_str_release(s);
}

/* The next frame; false when the agent has hung up. */
static bool next(host *h, fy_agent_frame *f)
{
    fy_err e = {0};
    int rc;
    while ((rc = fy_agent_next(&h->in, f, &e)) == 0) {
        if (fy_agent_fill(&h->in, h->fd, &e) <= 0)
            return false;
    }
    assert_int_equal(rc, 1);
    return true;
}

static void host_begin(host *h)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    h->fd = pair[0];
    h->agent_fd = pair[1];
    h->in.peer = "the agent";
    assert_int_equal(pthread_create(&h->thread, NULL, serve, h), 0);
}

static void host_end(host *h)
{
    if (h->fd >= 0)
        close(h->fd);
    h->fd = -1;
    pthread_join(h->thread, NULL);
    fy_agent_reader_release(&h->in);
    fy_manifest_release(&h->m);
}

/* Greeting, destination, manifest. */
static void host_push(host *h, const char *path, const content *c, size_t n, bool prune)
{
    fy_str text = {0}, out = {0};
    fy_agent_frame f;
    fy_agent_hello hello;
    h->content = c;
    manifest_of(c, n, &text);
    assert_int_equal(fy_manifest_parse(text.ptr, text.len, &h->m, NULL), 0);
    fy_agent_put_greet(&out);
    send_all(h, &out);
    assert_true(next(h, &f));
    assert_int_equal(fy_agent_get_hello(&f, &hello, NULL), 0);
    assert_string_equal(hello.version, "test");
    fy_agent_push push = {.manifest_bytes = text.len, .prune = prune};
    snprintf(push.path, sizeof push.path, "%s", path);
    fy_agent_put_push(&out, &push);
    fy_agent_put(&out, FY_AGENT_MANIFEST, text.ptr, text.len);
    send_all(h, &out);
    fy_str_release(&text);
}

static void send_unit(host *h, uint32_t file, uint32_t unit)
{
    const fy_manifest_entry *m = &h->m.entry[file];
    const uint8_t *p = h->content[file].bytes + fy_unit_offset(unit);
    uint8_t head[FY_AGENT_DATA_HEAD];
    for (size_t left = fy_unit_bytes(m, unit), n; left > 0; left -= n, p += n) {
        n = left < FY_AGENT_MAX_DATA ? left : FY_AGENT_MAX_DATA;
        fy_agent_data_head(head, file, unit, n);
        if (fy_write_all(h->fd, head, sizeof head, "the agent", NULL) != 0 ||
            fy_write_all(h->fd, p, n, "the agent", NULL) != 0)
            return;
    }
}

typedef struct {
    fy_agent_done done;
    unsigned wants;
    fy_err err;
} answer;

/* Answers every question until the end; gives up in the middle of the unit after `units`. */
static answer host_answer(host *h, unsigned units)
{
    answer a = {0};
    fy_agent_frame f;
    uint32_t file, unit;
    while (next(h, &f)) {
        if (f.type == FY_AGENT_WANT) {
            assert_int_equal(fy_agent_get_unit(&f, &h->m, &file, &unit, NULL), 0);
            if (a.wants++ < units) {
                send_unit(h, file, unit);
                continue;
            }
            uint8_t head[FY_AGENT_DATA_HEAD];
            fy_agent_data_head(head, file, unit, 1);
            fy_write_all(h->fd, head, sizeof head, "the agent", NULL);
            fy_write_all(h->fd, h->content[file].bytes + fy_unit_offset(unit), 1, "", NULL);
            break;
        }
        if (f.type == FY_AGENT_READY) {
            fy_str commit = {0};
            fy_agent_put(&commit, FY_AGENT_COMMIT, NULL, 0);
            send_all(h, &commit);
        }
        if (f.type == FY_AGENT_DONE) {
            assert_int_equal(fy_agent_get_done(&f, &a.done, NULL), 0);
            return a;
        }
        if (f.type == FY_AGENT_FAIL) {
            fy_agent_get_fail(&f, &a.err);
            return a;
        }
    }
    return a;
}

static answer push_with(const char *path, const content *c, size_t n, unsigned units, bool prune,
                        bool no_links)
{
    host h = {.no_links = no_links};
    host_begin(&h);
    host_push(&h, path, c, n, prune);
    answer a = host_answer(&h, units);
    host_end(&h);
    return a;
}

static answer push(const char *name, const content *c, size_t n)
{
    return push_with(at(name), c, n, UINT32_MAX, false, false);
}

static void assert_there(const char *name, const content *c, size_t n)
{
    char path[600];
    for (size_t i = 0; i < n; i++) {
        fy_map m;
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", at(name), c[i].path);
        assert_int_equal(fy_map_open(&m, path, NULL), 0);
        assert_int_equal(m.size, c[i].n);
        assert_memory_equal(m.data, c[i].bytes, c[i].n);
        fy_map_close(&m);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, strncmp(c[i].path, "bin/", 4) == 0 ? 0755 : 0644);
    }
}

static unsigned count_versions(const char *suffix)
{
    unsigned n = 0;
    DIR *d = opendir(at(FY_STORE_VERSIONS));
    for (struct dirent *en; d != NULL && (en = readdir(d)) != NULL;) {
        size_t len = strlen(en->d_name), k = strlen(suffix);
        if (en->d_name[0] == '.')
            continue;
        bool part = len > 5 && strcmp(en->d_name + len - 5, FY_STORE_PART) == 0;
        n += k == 0 ? !part : len > k && strcmp(en->d_name + len - k, suffix) == 0;
    }
    if (d != NULL)
        closedir(d);
    return n;
}

/* A file of three blocks, a program, an empty file. */
static void make(content c[3], uint32_t seed)
{
    c[0] = (content){"bin/tool", noise(5000, seed), 5000};
    c[1] = (content){"big.bin", noise(BIG, seed + 1), BIG};
    c[2] = (content){"model/none", noise(0, 0), 0};
    content swap = c[0]; /* sorted by path */
    c[0] = c[1];
    c[1] = swap;
}

static void drop(content c[3])
{
    for (int i = 0; i < 3; i++)
        free(c[i].bytes);
}

/* --- tests ------------------------------------------------------------------------------------ */

static void a_first_push_brings_every_byte(void **state)
{
    (void)state;
    content c[3];
    make(c, 1);
    answer a = push("ws", c, 3);
    assert_int_equal(a.err.code, FY_OK);
    assert_int_equal(a.wants, 4);
    assert_int_equal(a.done.received_bytes, 5000 + BIG);
    assert_int_equal(a.done.reused_bytes, 0);
    assert_false(a.done.up_to_date);
    assert_there("ws", c, 3);
    assert_int_equal(count_versions(FY_STORE_PART), 0);
    drop(c);
}

static void a_second_push_of_the_same_asks_for_nothing(void **state)
{
    (void)state;
    content c[3];
    make(c, 1);
    push("ws", c, 3);
    answer a = push("ws", c, 3);
    assert_int_equal(a.wants, 0);
    assert_true(a.done.up_to_date);
    assert_int_equal(a.done.reused_bytes, 5000 + BIG);
    drop(c);
}

static void only_changed_blocks_are_asked_for(void **state)
{
    (void)state;
    content c[3];
    make(c, 1);
    push("ws", c, 3);
    c[0].bytes[FY_MANIFEST_BLOCK + 7] ^= 1;
    for (int no_links = 0; no_links < 2; no_links++) {
        answer a = push_with(at(no_links ? "other" : "ws"), c, 3, UINT32_MAX, false, no_links);
        assert_int_equal(a.err.code, FY_OK);
        assert_int_equal(a.wants, no_links ? 0 : 1); /* the second finds what the first brought */
        assert_there(no_links ? "other" : "ws", c, 3);
    }
    drop(c);
}

static void identical_files_are_linked_or_copied_where_links_are_refused(void **state)
{
    (void)state;
    content c[3];
    struct stat st;
    make(c, 1);
    push("ws", c, 3);
    c[1].bytes[0] ^= 1; /* the program only */
    answer a = push_with(at("ws"), c, 3, UINT32_MAX, false, true);
    assert_int_equal(a.wants, 1);
    assert_there("ws", c, 3);
    assert_int_equal(stat(at("ws/big.bin"), &st), 0);
    assert_int_equal(st.st_nlink, 1);
    c[1].bytes[0] ^= 2;
    a = push("ws", c, 3);
    assert_int_equal(a.wants, 1);
    assert_there("ws", c, 3);
    assert_int_equal(stat(at("ws/big.bin"), &st), 0);
    assert_true(st.st_nlink > 1);
    assert_int_equal(a.done.n_old, 2);
    drop(c);
}

static void a_broken_push_is_continued(void **state)
{
    (void)state;
    content c[3];
    make(c, 1);
    answer a = push_with(at("ws"), c, 3, 2, false, false);
    assert_int_equal(a.done.received_bytes, 0);
    assert_false(fy_file_exists(at("ws")));
    assert_int_equal(count_versions(FY_STORE_PART), 1);
    assert_int_equal(count_versions(""), 0);
    a = push("ws", c, 3);
    assert_int_equal(a.err.code, FY_OK);
    assert_true(a.wants < 4);
    assert_int_equal(a.done.received_bytes + a.done.reused_bytes, 5000 + BIG);
    assert_there("ws", c, 3);
    drop(c);
}

static void blocks_of_another_broken_push_are_used_and_it_is_removed(void **state)
{
    (void)state;
    content c[3];
    make(c, 1);
    push_with(at("ws"), c, 3, 3, false, false);
    c[1].bytes[9] ^= 1;
    answer a = push("ws", c, 3);
    assert_true(a.wants < 4);
    assert_there("ws", c, 3);
    assert_int_equal(count_versions(FY_STORE_PART), 0);
    drop(c);
}

static void damage_on_the_phone_is_found_and_mended(void **state)
{
    (void)state;
    content c[3];
    make(c, 1);
    push("ws", c, 3);
    FILE *f = fopen(at("ws/big.bin"), "r+b");
    assert_non_null(f);
    fseek(f, 100, SEEK_SET);
    fputc(c[0].bytes[100] ^ 1, f);
    fclose(f);
    answer a = push("ws", c, 3);
    assert_false(a.done.up_to_date);
    assert_int_equal(a.wants, 1);
    assert_there("ws", c, 3);
    assert_int_equal(count_versions(""), 1);
    drop(c);
}

/* The older version shares its bytes with the new one by a link: mending must not write into it. */
static void a_damaged_link_is_replaced_and_the_old_file_left_alone(void **state)
{
    (void)state;
    content c[3];
    make(c, 1);
    push("ws", c, 3);
    assert_int_equal(rename(at("ws"), at("before")), 0);
    FILE *f = fopen(at("before/big.bin"), "r+b");
    fseek(f, 100, SEEK_SET);
    fputc(c[0].bytes[100] ^ 1, f);
    fclose(f);
    c[1].bytes[9] ^= 1;
    answer a = push("ws", c, 3);
    assert_int_equal(a.wants, 2); /* the program, the damaged block */
    assert_there("ws", c, 3);
    fy_map m;
    assert_int_equal(fy_map_open(&m, at("before/big.bin"), NULL), 0);
    assert_int_equal(m.data[100], c[0].bytes[100] ^ 1);
    fy_map_close(&m);
    drop(c);
}

static void old_versions_are_counted_and_pruned(void **state)
{
    (void)state;
    content c[3];
    make(c, 1);
    push("ws", c, 3);
    push("ws-2", c, 3); /* of another name: never touched */
    c[1].bytes[0] ^= 1;
    answer a = push("ws", c, 3);
    assert_int_equal(a.done.n_old, 1);
    c[1].bytes[0] ^= 2;
    a = push_with(at("ws"), c, 3, UINT32_MAX, true, false);
    assert_int_equal(a.done.n_pruned, 2);
    assert_int_equal(a.done.n_old, 0);
    assert_int_equal(count_versions(""), 2);
    assert_there("ws", c, 3);
    drop(c);
}

static void data_with_another_hash_is_refused(void **state)
{
    (void)state;
    content c[3];
    make(c, 1);
    host h = {0};
    host_begin(&h);
    host_push(&h, at("ws"), c, 3, false);
    c[0].bytes[5] ^= 1; /* after its hash was told */
    answer a = host_answer(&h, UINT32_MAX);
    host_end(&h);
    assert_int_equal(a.err.code, FY_EVERIFY);
    assert_non_null(strstr(a.err.msg, "big.bin: bytes 0 to 4194303 arrived with another SHA-256"));
    assert_false(fy_file_exists(at("ws")));
    assert_int_equal(count_versions(""), 0);
    drop(c);
}

static void what_stands_in_the_way_is_left_alone(void **state)
{
    (void)state;
    content c[3];
    make(c, 1);
    assert_int_equal(mkdir(at("ws"), 0777), 0);
    answer a = push("ws", c, 3);
    assert_int_equal(a.err.code, FY_EDEVICE);
    assert_non_null(strstr(a.err.msg, "not a link that a push made"));
    drop(c);
}

static void places_that_are_no_names_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"relative/ws",  "/",        "/etc/../ws",   "/tmp//ws",
                                      "/tmp/.hidden", "/tmp/a b", "/elsewhere/ws"};
    content c[3];
    make(c, 1);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        answer a = push_with(bad[i], c, 3, UINT32_MAX, false, false);
        assert_int_equal(a.err.code, FY_EARG);
    }
    drop(c);
}

static void unasked_data_ends_the_push(void **state)
{
    (void)state;
    content c[3];
    uint8_t head[FY_AGENT_DATA_HEAD] = {0};
    make(c, 1);
    push("ws", c, 3);
    c[1].bytes[0] ^= 1;
    host h = {0};
    host_begin(&h);
    host_push(&h, at("ws"), c, 3, false);
    fy_agent_data_head(head, 0, 1, 1);
    fy_write_all(h.fd, head, sizeof head, "", NULL);
    fy_write_all(h.fd, "x", 1, "", NULL);
    answer a = host_answer(&h, 0);
    for (fy_agent_frame f; a.err.code == FY_OK && next(&h, &f);) {
        if (f.type == FY_AGENT_FAIL)
            fy_agent_get_fail(&f, &a.err);
    }
    host_end(&h);
    assert_int_equal(a.err.code, FY_EDEVICE);
    drop(c);
}

static void a_stream_that_ends_at_once_is_no_failure(void **state)
{
    (void)state;
    host h = {0};
    host_begin(&h);
    host_end(&h);
    assert_int_equal(h.rc, 0);
}

static void another_version_of_the_protocol_is_told_apart(void **state)
{
    (void)state;
    host h = {0};
    fy_str out = {0};
    fy_agent_frame f;
    fy_err e = {0};
    host_begin(&h);
    fy_agent_put(&out, FY_AGENT_GREET, FY_AGENT_MAGIC "\2\0\0\0", 8);
    send_all(&h, &out);
    assert_true(next(&h, &f));
    fy_agent_get_fail(&f, &e);
    assert_int_equal(e.code, FY_EUNSUPPORTED);
    host_end(&h);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
#define T(f) cmocka_unit_test_setup_teardown(f, tmp_make, tmp_remove)
    const struct CMUnitTest tests[] = {
        T(a_first_push_brings_every_byte),
        T(a_second_push_of_the_same_asks_for_nothing),
        T(only_changed_blocks_are_asked_for),
        T(identical_files_are_linked_or_copied_where_links_are_refused),
        T(a_broken_push_is_continued),
        T(blocks_of_another_broken_push_are_used_and_it_is_removed),
        T(damage_on_the_phone_is_found_and_mended),
        T(a_damaged_link_is_replaced_and_the_old_file_left_alone),
        T(old_versions_are_counted_and_pruned),
        T(data_with_another_hash_is_refused),
        T(what_stands_in_the_way_is_left_alone),
        T(places_that_are_no_names_are_refused),
        T(unasked_data_ends_the_push),
        T(a_stream_that_ends_at_once_is_no_failure),
        T(another_version_of_the_protocol_is_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
