#include "storage/s3/credentials.h"

#include "cairn/error.h"

#include "core/environment.h"
#include "io/threads/turns.h"
#include "storage/s3/credential_fetch.h"

namespace cairn::s3 {
namespace {

// How long before their expiry keys are fetched again.
constexpr std::chrono::minutes kEarly{5};
// How long to wait before the next fetch, while the kept keys are valid. There is a pause after a
// failure: a source that hangs would make every request wait for it. There is a pause, too, after
// new keys that expire just as soon: some sources return the same keys until shortly before their
// expiry.
constexpr std::chrono::seconds kPauseOfKeys{30};

constexpr const char* kNoKeys =
    "no keys for S3 were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE to "
    "one of the profiles in ~/.aws/credentials";

class FixedCredentials final : public CredentialSource {
 public:
  explicit FixedCredentials(Credentials credentials) : credentials_(std::move(credentials)) {}
  Credentials get() override {
    if (!credentials_.complete()) throw UsageError(kNoKeys);
    return credentials_;
  }

 private:
  Credentials credentials_;
};

class FetchedCredentials final : public CredentialSource {
 public:
  FetchedCredentials(std::function<Credentials()> fetch, std::shared_ptr<NetClock> clock,
                     std::string what)
      : fetch_(std::move(fetch)),
        clock_(clock ? std::move(clock) : real_net_clock()),
        what_(std::move(what)) {}

  Credentials get() override {
    const Turn turn(turns_);
    const NetTime now = clock_->now();
    const bool holds = kept_.complete() && (!kept_.expires || now < *kept_.expires);
    const bool holds_long = holds && (!kept_.expires || now < *kept_.expires - kEarly);
    const bool may_wait = holds_long || (holds && now < next_try_);
    if (may_wait && !is_refused_) return kept_;
    try {
      kept_ = fetch();
      is_refused_ = false;
      next_try_ = next_try_after(clock_->now());
    } catch (const StorageError&) {
      if (!holds || is_refused_) throw;
      next_try_ = clock_->now() + kPauseOfKeys;
    }
    return kept_;
  }

  void note_refused(const Credentials& used) override {
    const Turn turn(turns_);
    // Another thread may have fetched new keys meanwhile.
    if (used.access_key == kept_.access_key && used.session_token == kept_.session_token) {
      is_refused_ = true;
    }
  }

 private:
  // The time until which new keys are used although they expire soon.
  NetTime next_try_after(NetTime now) const {
    if (!kept_.expires || *kept_.expires <= now) return now;
    return now + std::min<NetTime::duration>(kPauseOfKeys, (*kept_.expires - now) / 2);
  }

  // An error about keys says nothing about the object: a token file that is briefly missing must
  // not look like a missing checkpoint. So all errors become StorageError. Only if there never were
  // keys are the errors of a configuration that cannot work passed on.
  Credentials fetch() {
    const bool had_some = kept_.complete();
    const auto refuse = [&](const Error& why) {
      throw StorageError(what_ + " could not be fetched: " + why.what(), 0, had_some);
    };
    try {
      Credentials fetched = fetch_();
      if (!fetched.complete()) throw UsageError(kNoKeys);
      return fetched;
    } catch (const StorageError&) {
      throw;
    } catch (const CancelledError&) {
      throw;
    } catch (const UsageError& e) {
      if (!had_some) throw;
      refuse(e);
    } catch (const UnsupportedError& e) {  // no libcurl
      if (!had_some) throw;
      refuse(e);
    } catch (const Error& e) {
      refuse(e);
    }
    return {};
  }

  std::function<Credentials()> fetch_;
  std::shared_ptr<NetClock> clock_;
  const std::string what_;
  Turns turns_;  // guards the members below; held during a fetch
  Credentials kept_ = {};
  NetTime next_try_ = {};
  bool is_refused_ = false;
};

std::string of_profile(const Profile& profile, const char* name) {
  const auto found = profile.find(name);
  return found == profile.end() ? "" : found->second;
}

FoundCredentials fixed(const Credentials& keys) {
  return {fixed_credentials(keys),
          keys.access_key + "\n" + keys.secret_key + "\n" + keys.session_token};
}

FoundCredentials fetched(const CredentialContext& context, std::string identity,
                         std::function<Credentials()> fetch) {
  return {fetched_credentials(std::move(fetch), context.retries.clock), std::move(identity)};
}

std::optional<WebIdentity> web_identity(const Profile& profile, bool is_profile_given) {
  WebIdentity found = {environment("AWS_ROLE_ARN"), environment("AWS_WEB_IDENTITY_TOKEN_FILE"),
                       environment("AWS_ROLE_SESSION_NAME")};
  const bool is_whole = !found.role.empty() && !found.token_file.empty();
  if (is_whole && !is_profile_given) return found;
  found = {of_profile(profile, "role_arn"), of_profile(profile, "web_identity_token_file"),
           of_profile(profile, "role_session_name")};
  if (!found.role.empty() && !found.token_file.empty()) return found;
  return std::nullopt;
}

// Refuses profile settings that AWS's tools support and cairn does not. Such a setting is no reason
// to use other keys. The profile's own keys only lead to the role, and have other rights.
void check_profile(const Profile& profile) {
  for (const char* name :
       {"role_arn", "source_profile", "credential_source", "sso_session", "sso_start_url"}) {
    if (profile.contains(name)) {
      throw UsageError(std::string("the AWS profile has a ") + name +
                       ", which cairn does not follow; export the keys it leads to (aws configure "
                       "export-credentials), or set credential_process to the aws command that "
                       "prints them");
    }
  }
}

}  // namespace

std::shared_ptr<CredentialSource> fixed_credentials(Credentials credentials) {
  return std::make_shared<FixedCredentials>(std::move(credentials));
}

std::shared_ptr<CredentialSource> fetched_credentials(std::function<Credentials()> fetch,
                                                      std::shared_ptr<NetClock> clock,
                                                      std::string what) {
  return std::make_shared<FetchedCredentials>(std::move(fetch), std::move(clock), std::move(what));
}

FoundCredentials find_credentials(const CredentialContext& context) {
  // All parts of a set come from one place: the id of one account does not fit the secret of
  // another.
  if (context.given.complete()) return fixed(context.given);
  const Credentials set = {environment("AWS_ACCESS_KEY_ID"), environment("AWS_SECRET_ACCESS_KEY"),
                           environment("AWS_SESSION_TOKEN")};
  if (set.complete() && !context.is_profile_given) return fixed(set);
  const Profile& profile = context.profile;
  if (const auto identity = web_identity(profile, context.is_profile_given)) {
    return fetched(context, "web " + identity->role + "\n" + identity->token_file,
                   [context, identity] { return fetch_web_identity(context, *identity); });
  }
  check_profile(profile);
  const Credentials keys = {of_profile(profile, "aws_access_key_id"),
                            of_profile(profile, "aws_secret_access_key"),
                            of_profile(profile, "aws_session_token")};
  if (keys.complete()) return fixed(keys);
  if (const std::string command = of_profile(profile, "credential_process"); !command.empty()) {
    return fetched(context, "process " + command, [command] { return fetch_process(command); });
  }
  std::string container = environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  if (container.empty()) container = environment("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (!container.empty()) {
    return fetched(context, "container " + container,
                   [context, container] { return fetch_container(context, container); });
  }
  if (environment("AWS_EC2_METADATA_DISABLED") == "true") return fixed({});
  return fetched(context, "instance", [context] { return fetch_instance(context); });
}

}  // namespace cairn::s3
