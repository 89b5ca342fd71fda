/* The clients of bench/load.py: connections that each ask one operation after the other, in one process and without threads.
 *
 *     load_client PORT CLIENTS WARM_SECONDS SECONDS SCRIPT
 *
 * An operation is one request, or several of which each may use what the one before was answered. SCRIPT is a file: the number of
 * requests of an operation on a line, then each request as a line "HEAD-BYTES BODY-BYTES" with these two behind it. A head has no
 * Content-Length and no empty line at its end. In both, "{number}" stands for a number of 8 digits that no other operation has, and
 * "{address}" for the "physical_address" of the answer before, and "{client}" for which client asks, in 3 digits. Client c begins with operation 997 c of the script, and goes round.
 *
 * The program warms up, writes "ready", and begins when it reads a line; then it writes one line of JSON: what it measured. An
 * answer that is not 2xx is an error, and ends its operation, which is not counted.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define NUMBER "{number}"
#define ADDRESS "{address}"
#define CLIENT "{client}"
#define FIELD "\"physical_address\":"
#define WAIT_MS 60000

struct bytes {
    char *at;
    size_t length, room;
};

struct request {
    char *head, *body;
};

struct client {
    int socket, which;
    size_t operation; /* of the script */
    size_t step;      /* of the operation */
    unsigned number;
    double began;
    struct bytes sent, answer;
    char address[4096];
};

static struct request *script;
static size_t operations, steps;
static int port, poller;
static unsigned numbers;
static float *taken; /* seconds of each operation */
static size_t done, room, errors, answered;
static char first_error[400];

static void fail(const char *format, ...) {
    va_list values;
    va_start(values, format);
    fputs("load_client: ", stderr);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    exit(1);
}

static void *sized(void *at, size_t size) {
    void *found = realloc(at, size);
    if (!found) fail("no memory for %zu bytes", size);
    return found;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void append(struct bytes *bytes, const char *from, size_t length) {
    if (bytes->length + length + 1 > bytes->room) {
        bytes->room = 2 * (bytes->length + length + 1);
        bytes->at = sized(bytes->at, bytes->room);
    }
    memcpy(bytes->at + bytes->length, from, length);
    bytes->length += length;
    bytes->at[bytes->length] = 0;
}

static char *part(FILE *file, size_t length) {
    char *found = sized(NULL, length + 1);
    if (fread(found, 1, length, file) != length) fail("the script ends within a request");
    found[length] = 0;
    return found;
}

static void read_script(const char *path) {
    FILE *file = fopen(path, "rb");
    size_t head, body, count = 0, space = 0;
    if (!file) fail("%s: %s", path, strerror(errno));
    if (fscanf(file, "%zu", &steps) != 1 || fgetc(file) != '\n' || !steps) fail("%s: no number of steps", path);
    while (fscanf(file, "%zu %zu", &head, &body) == 2 && fgetc(file) == '\n') {
        if (count == space) script = sized(script, (space = 2 * space + 64) * sizeof *script);
        script[count].head = part(file, head);
        script[count].body = part(file, body);
        count++;
    }
    if (!feof(file) || !count || count % steps) fail("%s: bad script of %zu requests", path, count);
    operations = count / steps;
    fclose(file);
}

/* Append a template with its placeholders filled in. */
static void fill(struct bytes *to, const char *template, const struct client *client) {
    char number[16], which[16];
    sprintf(number, "%08u", client->number);
    sprintf(which, "%03d", client->which);
    const struct {
        const char *name, *value;
    } places[] = {{NUMBER, number}, {ADDRESS, client->address}, {CLIENT, which}};
    for (const char *mark; (mark = strchr(template, '{'));) {
        size_t p = 0;
        while (p < 3 && strncmp(mark, places[p].name, strlen(places[p].name))) p++;
        append(to, template, mark - template);
        if (p < 3) append(to, places[p].value, strlen(places[p].value));
        else append(to, "{", 1);
        template = mark + (p < 3 ? strlen(places[p].name) : 1);
    }
    append(to, template, strlen(template));
}

static void join(struct client *client) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int yes = 1;
    client->socket = socket(AF_INET, SOCK_STREAM, 0);
    if (client->socket < 0 || connect(client->socket, (struct sockaddr *)&at, sizeof at))
        fail("port %d: %s", port, strerror(errno));
    setsockopt(client->socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, client->socket, &event)) fail("epoll: %s", strerror(errno));
}

static void ask(struct client *client) {
    struct request *request = &script[client->operation * steps + client->step];
    static struct bytes body;
    char length[64];
    if (!client->step) {
        client->number = numbers++;
        client->began = now();
    }
    body.length = client->sent.length = client->answer.length = 0;
    fill(&body, request->body, client);
    fill(&client->sent, request->head, client);
    if (body.length) append(&client->sent, length, sprintf(length, "Content-Length: %zu\r\n", body.length));
    append(&client->sent, "\r\n", 2);
    append(&client->sent, body.at, body.length);
    for (size_t at = 0; at < client->sent.length;) {
        ssize_t sent = send(client->socket, client->sent.at + at, client->sent.length - at, MSG_NOSIGNAL);
        if (sent < 0) return; /* the connection is closed: recv will tell */
        at += sent;
    }
}

static void begin(struct client *client) {
    client->step = 0;
    client->operation = (client->operation + 1) % operations;
    ask(client);
}

static void note_error(const char *what) {
    if (!errors++) snprintf(first_error, sizeof first_error, "%s", what);
}

/* The bytes of an answer's body by its head, which ends in an empty line. */
static size_t body_length(const char *head) {
    for (const char *line = strstr(head, "\r\n"); line; line = strstr(line + 2, "\r\n"))
        if (!strncasecmp(line + 2, "content-length:", 15)) return strtoul(line + 17, NULL, 10);
    if (strncmp(head + 9, "204", 3)) fail("an answer without Content-Length: %.300s", head);
    return 0;
}

/* Keep the address that an answer names; JSON's escapes stay as they are. */
static void keep_address(struct client *client, const char *body) {
    const char *from = strstr(body, FIELD);
    const char *until = NULL;
    if (from && (from = strchr(from + strlen(FIELD), '"')))
        for (until = ++from; *until && *until != '"'; until++)
            if (*until == '\\' && until[1]) until++;
    if (!until || !*until || (size_t)(until - from) >= sizeof client->address) fail("an answer without an address: %.300s", body);
    memcpy(client->address, from, until - from);
    client->address[until - from] = 0;
}

/* Take what has come. 1: the operation has ended; 0: it goes on. */
static int take(struct client *client) {
    static char chunk[1 << 18];
    ssize_t came = recv(client->socket, chunk, sizeof chunk, 0);
    if (came <= 0) {
        note_error(came ? strerror(errno) : "the server closed the connection");
        close(client->socket);
        join(client);
        return 1;
    }
    append(&client->answer, chunk, came);
    char *end = strstr(client->answer.at, "\r\n\r\n");
    if (!end) return 0;
    if (client->answer.length < (size_t)(end + 4 - client->answer.at) + body_length(client->answer.at)) return 0;
    answered++;
    if (client->answer.length < 12 || client->answer.at[9] != '2') {
        note_error(client->answer.at);
        return 1;
    }
    if (++client->step < steps) {
        if (strstr(script[client->operation * steps + client->step].body, ADDRESS)) keep_address(client, end);
        ask(client);
        return 0;
    }
    if (done == room) taken = sized(taken, (room = 2 * room + 4096) * sizeof *taken);
    taken[done++] = now() - client->began;
    return 1;
}

static void run(struct client *clients, int count, double seconds) {
    double end = now() + seconds;
    int waiting = count;
    struct epoll_event events[256];
    for (int c = 0; c < count; c++) begin(&clients[c]);
    while (waiting) {
        int ready = epoll_wait(poller, events, 256, WAIT_MS);
        if (ready <= 0) fail("%d clients have waited for an answer for %d s", waiting, WAIT_MS / 1000);
        for (int e = 0; e < ready; e++) {
            struct client *client = events[e].data.ptr;
            if (!take(client)) continue;
            if (now() < end) begin(client);
            else waiting--;
        }
    }
}

static int ascending(const void *one, const void *other) {
    float a = *(const float *)one, b = *(const float *)other;
    return (a > b) - (a < b);
}

static double cpu(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

static void print_string(const char *text) {
    putchar('"');
    for (; *text; text++)
        if (*text == '"' || *text == '\\') printf("\\%c", *text);
        else if ((unsigned char)*text < ' ') printf("\\u%04x", *text);
        else putchar(*text);
    putchar('"');
}

int main(int count, char **words) {
    if (count != 6) fail("PORT CLIENTS WARM_SECONDS SECONDS SCRIPT");
    port = atoi(words[1]);
    int number = atoi(words[2]);
    if (number < 1 || number > 256) fail("1 to 256 clients, not %s", words[2]);
    read_script(words[5]);
    poller = epoll_create1(0);
    struct client *clients = calloc(number, sizeof *clients);
    for (int c = 0; c < number; c++) {
        join(&clients[c]);
        clients[c].which = c;
        clients[c].operation = c * 997 % operations;
    }
    run(clients, number, atof(words[3]));
    done = answered = 0;
    puts("ready");
    fflush(stdout);
    if (getchar() == EOF) return 1;
    double used = cpu(), began = now();
    run(clients, number, atof(words[4]));
    double seconds = now() - began;
    used = cpu() - used;
    qsort(taken, done, sizeof *taken, ascending);
    printf("{\"operations\": %zu, \"requests\": %zu, \"errors\": %zu, \"seconds\": %.6f, \"cpu\": %.6f, ", done, answered, errors,
           seconds, used);
    printf("\"p50\": %.9f, \"p99\": %.9f, \"worst\": %.9f, \"first_error\": ", done ? taken[done / 2] : 0,
           done ? taken[done * 99 / 100] : 0, done ? taken[done - 1] : 0);
    print_string(first_error);
    puts("}");
}
