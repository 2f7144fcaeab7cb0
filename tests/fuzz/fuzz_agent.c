/* Both ends of a push, each against bytes of anybody. The first byte chooses: an agent reads the
 * rest from a host, or the host's side reads it from a phone; bit 1 puts a right greeting in front,
 * bit 2 a right push and manifest, so that mutations get past them. What an agent writes lies below
 * a directory of this process. */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "bundle/agent_job.h"
#include "bundle/agent_store.h"
#include "workspace/phone/push.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[64];

static void clean_up(void)
{
    fy_store_remove(dir, NULL);
}

/* Two files, one of them of two blocks, whose bytes nobody has. */
static void manifest(fy_str *s)
{
    uint8_t hash[FY_SHA256_BYTES];
    char hex[FY_SHA256_HEX], zeros[65] = "";
    memset(zeros, '0', 64);
    fy_str_printf(
        s,
        "{\"format_version\":1,\"tool\":\"t\",\"target\":\"t\",\"files\":[{\"path\":\"a\","
        "\"size\":%u,\"mode\":\"0644\",\"sha256\":\"%s\",\"blocks\":[\"%s\",\"%s\"]},"
        "{\"path\":\"b/c\",\"size\":0,\"mode\":\"0755\",\"sha256\":\"%s\"}]",
        FY_MANIFEST_BLOCK + 3, zeros, zeros, zeros, zeros);
    fy_sha256_of(s->ptr, s->len, hash, NULL);
    fy_sha256_to_hex(hash, hex);
    fy_str_printf(s, ",\"sha256\":\"%s\"}", hex);
}

static void setup(void)
{
    static char path[96];
    fy_str text = {0};
    if (dir[0] != '\0')
        return;
    strcpy(dir, "/tmp/ferry-fuzz-XXXXXX");
    if (mkdtemp(dir) == NULL)
        abort();
    atexit(clean_up);
    signal(SIGPIPE, SIG_IGN);
    manifest(&text);
    snprintf(path, sizeof path, "%s/" FY_MANIFEST_NAME, dir);
    if (fy_file_write(path, text.ptr, text.len, NULL) != 0)
        abort();
    fy_str_release(&text);
}

static void to_agent(unsigned how, const uint8_t *data, size_t size)
{
    fy_str in = {0}, text = {0};
    fy_err e = {0};
    manifest(&text);
    if (how & 2)
        fy_agent_put_greet(&in);
    if (how & 4) {
        fy_agent_push p = {.manifest_bytes = text.len};
        snprintf(p.path, sizeof p.path, "%s/p/ws", dir);
        fy_agent_put_push(&in, &p);
        fy_agent_put(&in, FY_AGENT_MANIFEST, text.ptr, text.len);
    }
    fy_str_add(&in, data, size);
    int fd = memfd_create("host", 0), out = open("/dev/null", O_WRONLY);
    if (fd < 0 || out < 0 || fy_write_all(fd, fy_str_z(&in), in.len, "", NULL) != 0)
        abort();
    lseek(fd, 0, SEEK_SET);
    fy_agent_params params = {
        .in_fd = fd, .out_fd = out, .version = "fuzz", .below = dir, .n_threads = 1};
    fy_agent_serve(&params, &e);
    close(fd);
    close(out);
    fy_str_release(&in);
    fy_str_release(&text);
}

static void to_host(unsigned how, const uint8_t *data, size_t size)
{
    int pair[2];
    fy_err why = {0}, e = {0};
    fy_push_source s;
    fy_push_link l;
    fy_agent_hello hello = {.version = "fuzz"};
    fy_agent_done done;
    fy_str in = {0};
    if (how & 2)
        fy_agent_put_hello(&in, &hello);
    fy_str_add(&in, data, size);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 || fy_push_source_open(&s, dir, &e) != 0)
        abort();
    if (send(pair[1], fy_str_z(&in), in.len, MSG_DONTWAIT) < 0 && in.len > 0)
        in.len = 0;
    shutdown(pair[1], SHUT_WR);
    if (fy_push_greet(&l, pair[0], &hello, &why, &e) == 1)
        fy_push_talk(&l, &s, "/x/ws", false, NULL, NULL, NULL, &done, &e);
    fy_push_link_release(&l);
    fy_push_source_release(&s);
    close(pair[0]);
    close(pair[1]);
    fy_str_release(&in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    setup();
    if (size == 0)
        return 0;
    if (data[0] & 1)
        to_host(data[0], data + 1, size - 1);
    else
        to_agent(data[0], data + 1, size - 1);
    return 0;
}
