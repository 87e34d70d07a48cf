// system(3) and popen(3): shell pipelines, their output and status.
// krun: static
#include "guest.h"
int main(int argc, char **argv) {
    char line[200];
    int s = system("echo in the shell; exit 9");
    say_status("system", s);
    s = system("kill -TERM $$");
    say_status("system killed", s);
    FILE *f = popen("printf 'b\\na\\nc\\n' | sort | tr a-z A-Z", "r");
    while (fgets(line, sizeof(line), f))
        say("%c", line[0]);
    say_status("pclose", pclose(f));
    f = popen("cat >&2; exit 3", "w");
    fprintf(f, "to stderr\n");
    say_status("pclose", pclose(f));
    return 0;
}
