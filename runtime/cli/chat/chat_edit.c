/* A message in the user's editor: a file beside others, the program with its arguments, the file
 * back. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/chat/chat_io.h"
#include "cli/terminal.h"
#include "cli/text_io.h"

static const char *editor(void)
{
    const char *visual = getenv("VISUAL"), *plain = getenv("EDITOR");
    return visual != NULL && *visual != '\0' ? visual
           : plain != NULL && *plain != '\0' ? plain
                                             : NULL;
}

/* The shell splits an editor with arguments, as git and others do: EDITOR='code --wait'. */
static void become(const char *command, const char *path)
{
    signal(SIGINT, SIG_DFL);
    signal(SIGTSTP, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    execl("/bin/sh", "sh", "-c", command, "sh", path, (char *)NULL);
    _exit(127);
}

/* Ctrl-C is the editor's. */
static int run(const char *program, const char *path, fy_err *e)
{
    int status = -1;
    fy_str command = {0};
    fy_str_printf(&command, "exec %s \"$1\"", program);
    if (command.oom)
        return fy_nomem(e);
    fy_signals_hold(true);
    pid_t pid = fork();
    if (pid == 0)
        become(command.ptr, path);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    fy_signals_take();
    fy_signals_hold(false);
    fy_str_release(&command);
    if (pid < 0)
        return fy_fail_errno(e, "cannot start %s", program);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return fy_fail(e, FY_EIO, "%s failed; the message stays as it was", program);
    return 0;
}

int fy_chat_edit_text(fy_str *text, fy_err *e)
{
    const char *program = editor(), *dir = getenv("TMPDIR");
    char path[4096];
    if (program == NULL)
        return 0;
    if (snprintf(path, sizeof path, "%s/ferry-message-XXXXXX.md",
                 dir != NULL && *dir == '/' ? dir : "/tmp") >= (int)sizeof path)
        return fy_fail(e, FY_EARG, "TMPDIR is too long");
    int fd = mkstemps(path, 3); /* 0600 */
    if (fd < 0)
        return fy_fail_errno(e, "%s: cannot create", path);
    int rc = fy_write_all(fd, fy_str_z(text), text->len, path, e);
    close(fd);
    if (rc == 0)
        rc = run(program, path, e);
    fy_str_clear(text);
    if (rc == 0)
        rc = fy_text_in_read(path, text, e);
    unlink(path);
    while (rc == 0 && text->len > 0 && text->ptr[text->len - 1] == '\n')
        text->ptr[--text->len] = '\0';
    return rc == 0 ? 1 : -1;
}
